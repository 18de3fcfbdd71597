//! The shop in one process: several shops on one store of locks, with two databases in files. Real processes, servers and
//! signals are in `processes`.

// Shared test code may also unwrap.
#![allow(clippy::unwrap_used)]

mod audit;
mod chaos;
mod jobs;
mod orders;
mod races;
mod reservations;
mod support;
