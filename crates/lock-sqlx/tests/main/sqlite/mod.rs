//! Locks in SQLite files.

mod conformance;
mod fences;
mod files;
mod processes;
mod rules;
pub(crate) mod support;
