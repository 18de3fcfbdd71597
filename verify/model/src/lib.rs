//! Searches every order of events that a small budget of faults allows for a broken promise, over the real state
//! machine and the real store rules of `lock-core`.
//!
//! ```text
//!   scripts of applications ─▶ machine (real) ─▶ requests ─▶ ┌ in flight ┐ ─▶ store rules (real)
//!            ▲ beliefs            ▲ replies, wake-ups ◀──────┤ lost, late, twice │
//!            └ checked            └ ticks of one clock       └───────────┘
//! ```
//!
//! A state is a [`World`], a possible step an [`Act`], and a promise a [`Law`]. At every state in which nothing is
//! under way, the faults are assumed to stop, and the world runs to its end: see [`drain`]. A checker is only trusted
//! if it catches known bugs, so a test finds each of its [planted bugs](lock_testkit::planted).
//!
//! [`Act`] describes the power of the environment in this model, and the ways in which it is kinder than the worst
//! case.

mod client;
mod config;
mod drain;
mod driver;
mod laws;
mod message;
mod model;
pub mod quorum;
mod step;
mod store;
mod world;

pub use config::{Budget, Config, Wait, Want};
pub use drain::{Drained, drain};
pub use laws::{Broken, Law};
pub use message::{Act, Answer, Ask, Body, Message};
pub use model::{LockModel, tell};
pub use world::World;
