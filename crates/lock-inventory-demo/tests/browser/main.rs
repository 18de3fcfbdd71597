//! Tests of the dashboard in headless Chromium: `cargo test -p lock-inventory-demo --test browser`.

// Tests may unwrap.
#![allow(clippy::unwrap_used)]

mod fixture;
mod page;
mod real;
