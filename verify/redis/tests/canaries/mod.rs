//! A password is never printed: not by a public type, not by an error, not in a log line of a whole life.
//!
//! A separate binary, since loggers are global to a process.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

pub(crate) mod ear;
pub(crate) mod hello;
mod life;
mod types;

/// Part of every password, of every key and of the users' rules, and of nothing else.
pub(crate) const CANARY: &str = "pass-canary-4711";

pub(crate) fn is_silent(what: &str, text: &str) {
    assert!(!text.contains(CANARY), "{what} contains a secret: {text}");
}
