//! What every lock backend must pass, and a backend that fails on purpose.
//!
//! - [`mod@conformance`]: one plain async function per property of a store, and [`conformance!`], which makes a named
//!   test of each. Adding a backend to the library means to pass it.
//! - [`FaultyBackend`]: any backend, with operations that hang, get lost, come late, come twice, or wait at a
//!   [`Gate`].
//! - [`History`]: what was held when, and whether two holds were valid at once or tokens fell.
//! - [`Seed`]: randomness that prints how to repeat it.
//!
//! ```
//! use lock_core::{Backend, MemoryBackend};
//! use lock_testkit::{Fault, FaultyBackend, Op};
//! use std::sync::Arc;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let faulty = FaultyBackend::new(Arc::new(MemoryBackend::new()));
//! faulty.next(Op::Acquire, Fault::ApplyThenLose); // one lost reply …
//! faulty.always(Op::Release, Fault::Hang); // … and releases that are never answered
//! let store: Arc<dyn Backend> = Arc::new(faulty.clone()); // give this one to a factory
//! # drop(store);
//! faulty.heal();
//! assert_eq!(faulty.calls(Op::Acquire), 0);
//! # }
//! ```

pub mod conformance;
mod faulty;
mod history;
mod redis;
mod seed;

pub use faulty::{Fault, FaultyBackend, Gate, Kept, Op, Phase};
pub use history::{History, HoldKey, Violation, Window};
pub use redis::RedisServer;
pub use seed::{Seed, Stream};
