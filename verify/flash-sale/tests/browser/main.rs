//! Tests of the dashboard in headless Chromium: `cargo test -p flash-sale --test browser`.

// Tests may unwrap.
#![allow(clippy::unwrap_used)]

mod fixture;
mod page;
mod real;
