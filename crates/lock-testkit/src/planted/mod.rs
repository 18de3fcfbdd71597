//! Planted bugs, which prove that the checkers work.
//!
//! [`PlantedBug`] lists every bug planted in this workspace and the checkers that catch it. For each
//! checker, a test proves that it catches its bugs. Each kind of bug is planted in one place:
//!
//! | bugs in | are planted by |
//! | --- | --- |
//! | the store rules | [`BuggySlot`] and [`BuggyStore`], for all checkers |
//! | subscriptions and backend replies | the buggy backend in the conformance tests |
//! | the run ledger | the buggy ledger in the conformance tests |
//! | the state machine | wrappers around its events and commands, in `verify/model` |
//! | quorum nodes | [`BuggySlot`] and [`BuggyStore`] |
//! | quorum rounds | the clients and nodes in `verify/model/src/quorum` |
//! | the driver | patches to its source code, in `verify/shuttle` |
//! | the process boundary (interpretation of replies) | [`PlantedBug::renewed`] and [`PlantedBug::released`] |
//! | the network, clocks and the protected resource | `verify/sim` |
//! | the random numbers of a process and its copies | `verify/model`, `verify/sim` |
//! | the script of a batch | a client that alters it, in `verify/redis` |

mod boundary;
mod bug;
mod node;
mod slot;
mod store;

pub use bug::{Checker, PlantedBug};
pub use slot::BuggySlot;
pub use store::BuggyStore;
