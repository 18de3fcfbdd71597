//! Compiles and runs the code in the README and in the pages of the book, as doc tests of this crate.

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

#[cfg(doctest)]
#[doc = include_str!("../../docs/recipes.md")]
struct Recipes;

#[cfg(doctest)]
#[doc = include_str!("../../docs/from-set-nx.md")]
struct FromSetNx;

#[cfg(doctest)]
#[doc = include_str!("../../docs/from-redisson.md")]
struct FromRedisson;

#[cfg(doctest)]
#[doc = include_str!("../../docs/from-shedlock.md")]
struct FromShedLock;

#[cfg(doctest)]
#[doc = include_str!("../../docs/layer.md")]
struct Layer;

#[cfg(doctest)]
#[doc = include_str!("../../docs/jobs.md")]
struct Jobs;

#[cfg(doctest)]
#[doc = include_str!("../../docs/backend.md")]
struct WritingABackend;

#[cfg(doctest)]
#[doc = include_str!("../../docs/idempotency.md")]
struct Idempotency;

#[cfg(doctest)]
#[doc = include_str!("../../docs/operating.md")]
struct Operating;

#[cfg(doctest)]
#[doc = include_str!("../../docs/topologies.md")]
struct Topologies;
