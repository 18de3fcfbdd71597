//! Locks in SQLite files.

mod conformance;
mod fences;
mod files;
mod permits;
mod processes;
pub(crate) mod support;
