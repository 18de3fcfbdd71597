//! Planted bugs: a checker is trusted because it catches known bugs.
//!
//! [`PlantedBug`] lists every bug that is planted anywhere in this workspace, and the checkers that catch it. Each
//! checker proves its part of the list in a test. Each kind of bug is planted in one place:
//!
//! | bugs in | are planted by |
//! | --- | --- |
//! | the store rules | [`BuggySlot`] and [`BuggyStore`], for all checkers |
//! | subscriptions, and the answers of a backend | the buggy backend in the conformance tests |
//! | the run ledger | the buggy ledger in the conformance tests |
//! | the state machine | wrappers of its events and commands, in `verify/model` |
//! | the nodes of a quorum | [`BuggySlot`] and [`BuggyStore`] |
//! | the rounds of a quorum | the clients and nodes of `verify/model/src/quorum` |
//! | the driver | patches of its sources, in `verify/shuttle` |
//! | the boundary of a process: its interpretation of answers | [`PlantedBug::renewed`] and [`PlantedBug::released`] |
//! | the network, clocks and the protected resource | `verify/sim` |
//! | the script of a batch | a client that alters it, in `verify/redis` |

mod boundary;
mod bug;
mod node;
mod slot;
mod store;

pub use bug::{Checker, PlantedBug};
pub use slot::BuggySlot;
pub use store::BuggyStore;
