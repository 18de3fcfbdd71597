//! Compiles and runs the code in the README, as doc tests of this crate.

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
