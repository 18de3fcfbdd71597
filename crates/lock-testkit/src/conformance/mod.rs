//! The conformance suite for backends, with one function per property and one named test per
//! function.
//!
//! A backend implements a harness that creates a store. The macro generates the tests:
//!
//! ```
//! use lock_core::{MemoryBackend, Store, clock::{Clock, TestClock}};
//! use lock_testkit::conformance::Harness;
//! use std::sync::Arc;
//!
//! struct Memory;
//!
//! impl Harness for Memory {
//!     async fn store(&self) -> Store {
//!         MemoryBackend::with_clock(Arc::new(TestClock::new())).into()
//!     }
//!     fn clock(&self) -> Arc<dyn Clock> {
//!         Arc::new(TestClock::new())
//!     }
//! }
//!
//! mod memory {
//!     use super::*;
//!     lock_testkit::conformance!(Memory, start_paused = true);
//! }
//! # fn main() {}
//! ```
//!
//! The properties form two groups: the store rules, tested through the
//! [`Backend`](lock_core::backend::Backend) trait, and the behaviour visible to users, tested
//! through [`LockFactory`](lock_core::LockFactory) and its guards. A violated property panics with
//! a message. [`NAMES`] lists all properties.
//!
//! The second suite, [`ledger_conformance!`](crate::ledger_conformance), tests a [run
//! ledger](lock_ledger::RunLedger) through a [`LedgerHarness`]. [`LEDGER_NAMES`] lists its
//! properties.
//!
//! The third suite, [`permit_conformance!`](crate::permit_conformance), tests the pools of a store.
//! [`PERMIT_NAMES`] lists its properties.

mod harness;
mod ledger_fixture;
mod list;
mod listener;
mod team;

#[doc(hidden)]
pub mod acquire;
#[doc(hidden)]
pub mod backfill;
#[doc(hidden)]
pub mod cancel;
#[doc(hidden)]
pub mod claim;
#[doc(hidden)]
pub mod concurrency;
#[doc(hidden)]
pub mod control;
#[doc(hidden)]
pub mod expiry;
#[doc(hidden)]
pub mod heartbeat;
#[doc(hidden)]
pub mod holding;
#[doc(hidden)]
pub mod instance;
#[doc(hidden)]
pub mod locking;
#[doc(hidden)]
pub mod naming;
#[doc(hidden)]
pub mod not_after;
#[doc(hidden)]
pub mod once;
#[doc(hidden)]
pub mod overlap;
#[doc(hidden)]
pub mod payload;
#[doc(hidden)]
pub mod permits;
#[doc(hidden)]
pub mod pool;
#[doc(hidden)]
pub mod release;
#[doc(hidden)]
pub mod reporting;
#[doc(hidden)]
pub mod retry;
#[doc(hidden)]
pub mod run;
#[doc(hidden)]
pub mod skip;
#[doc(hidden)]
pub mod summary;
#[doc(hidden)]
pub mod tokens;
#[doc(hidden)]
pub mod waiting;
#[doc(hidden)]
pub mod wake_ups;

use crate::contender;
pub use harness::{Harness, LedgerHarness};
pub use list::{LEDGER_NAMES, NAMES, PERMIT_NAMES};
