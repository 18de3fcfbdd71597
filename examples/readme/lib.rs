//! The code in the README compiles and runs: as the doc tests of this crate.

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
