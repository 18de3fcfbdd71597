//! Compiles and runs the code in the README and in `docs/start.md`, as doc tests of this crate.

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../docs/start.md")]
struct Start;
