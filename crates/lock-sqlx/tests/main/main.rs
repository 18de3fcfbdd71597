//! Locks in SQL databases.
#![cfg(all(unix, feature = "mysql", feature = "postgres", feature = "sqlite"))]
#![allow(clippy::unwrap_used)]

mod finished;
mod ledgers;
mod mysql;
mod postgres;
mod rules;
mod sqlite;
mod support;
