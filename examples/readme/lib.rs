//! Compiles and runs the code in the README and on the pages of `docs/` that show code, as doc tests of this crate.

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../docs/start.md")]
struct Start;

#[cfg(doctest)]
#[doc = include_str!("../../docs/blocking.md")]
struct Blocking;

#[cfg(doctest)]
#[doc = include_str!("../../docs/moving.md")]
struct Moving;
