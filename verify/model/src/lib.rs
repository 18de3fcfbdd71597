//! Searches every order of events that a small budget of faults allows, over the real state machine and the real
//! store rules of `lock-core`, for a broken promise.
//!
//! ```text
//!   scripts of applications ─▶ machine (real) ─▶ requests ─▶ ┌ in flight ┐ ─▶ store rules (real)
//!            ▲ beliefs            ▲ replies, wake-ups ◀──────┤ lost, late, twice │
//!            └ checked            └ ticks of one clock       └───────────┘
//! ```
//!
//! A state is a [`World`]; what may happen next is an [`Act`]; a promise is a [`Law`]. At every state in which nothing
//! is under way, the faults are imagined to stop, and the world is run to its end: see [`drain`]. A checker is trusted
//! only when it catches what is known to be wrong, so a test finds each of its
//! [planted bugs](lock_testkit::planted).
//!
//! What the environment of this model is allowed to do, and where it is kinder than the worst that can be imagined, is
//! said at [`Act`].

mod act;
mod actions;
mod belief;
mod client;
mod config;
mod drain;
mod driver;
mod holds;
mod laws;
mod look;
mod memo;
mod message;
mod model;
mod planted;
pub mod quorum;
mod report;
mod step;
mod store;
mod world;

pub use act::Act;
pub use config::{Budget, Config, Wait, Want};
pub use drain::{Drained, drain};
pub use laws::{Broken, Law};
pub use message::{Answer, Ask, Body, Message};
pub use model::LockModel;
pub use report::tell;
pub use world::World;
