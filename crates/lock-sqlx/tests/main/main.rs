//! Locks in SQL databases.
#![cfg(all(unix, feature = "postgres", feature = "sqlite"))]
#![allow(clippy::unwrap_used)]

mod finished;
mod ledgers;
mod postgres;
mod sqlite;
mod support;
