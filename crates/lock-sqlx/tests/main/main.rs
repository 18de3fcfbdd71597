//! Tests of locks in an SQLite file, with real files and processes.

#![cfg(all(unix, feature = "sqlite"))]
#![allow(clippy::unwrap_used)]

mod conformance;
mod fences;
mod files;
mod processes;
mod rules;
mod support;
