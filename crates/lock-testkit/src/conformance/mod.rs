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

mod harness;
mod ledger_fixture;
mod list;
mod listener;
mod team;

pub mod backfill;
pub mod cancel;
pub mod claim;
pub mod control;
pub mod freeing;
pub mod heartbeat;
pub mod holding;
pub mod instance;
pub mod lasting;
pub mod late;
pub mod locking;
pub mod naming;
pub mod once;
pub mod overlap;
pub mod payload;
pub mod pool;
pub mod racing;
pub mod reporting;
pub mod retry;
pub mod run;
pub mod skip;
pub mod summary;
pub mod taking;
pub mod tokens;
pub mod waiting;
pub mod waking;

use crate::contender;
pub use harness::{Harness, LedgerHarness};
pub use list::{LEDGER_NAMES, NAMES};
