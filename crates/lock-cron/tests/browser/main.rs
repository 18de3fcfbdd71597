//! The console in a headless Chromium: `cargo test -p lock-cron --all-features --test browser`.

// Tests may unwrap.
#![allow(clippy::unwrap_used)]

mod actions;
mod fixture;
mod large;
mod page;
mod past;
