//! A password is never printed: not by any public type, not by any error, not in any log line of a whole life.
//!
//! A separate binary, since loggers are global to a process.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

pub(crate) mod ear;
pub(crate) mod hello;
mod life;
mod types;

/// Part of every password, key and user's rules, and of nothing else.
pub(crate) const CANARY: &str = "pass-canary-4711";

pub(crate) fn is_silent(what: &str, text: &str) {
    assert!(!text.contains(CANARY), "{what} tells a secret: {text}");
}
