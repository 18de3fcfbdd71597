//! The conformance suite over the backends of this workspace that need no server.

// What a test sets up either works or fails the test.
#![allow(clippy::unwrap_used)]

mod faulty;
mod memory;
mod mutants;
mod promises;
mod storm;
mod subscriptions;
