//! Tests of the application, by part.

// What they share may unwrap as they do.
#![allow(clippy::unwrap_used)]

mod balancer;
mod catalogue;
mod fleet;
mod load;
mod program;
