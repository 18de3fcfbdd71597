//! The part of a factory with side effects: it spawns and wakes tasks, sleeps, reads the clock and calls the backend.
//!
//! ```text
//!   4  acquire ── release ── handle        what callers use
//!   3  keeper                              the task that does what is due
//!   2  dispatch ── submit ── shared        event ▶ machine ▶ commands ▶ effects and requests
//!   1  agenda ── request                   what is due, and when
//!      entry ── hold_state ── card         a lock name in this process
//!   0  activity, runtime                   helpers that do not depend on locks
//! ```
//!
//! A file imports only from its own row or a lower one.
//!
//! An *entry* is a lock name that this process holds or waits for: a mutex around its machine and the slots of
//! waiting futures. A task that has an event locks the mutex, handles the event, unlocks, and only then wakes tasks
//! and calls the store. A caller's cancellation is an event like any other.
//!
//! Operations are [submitted](crate::backend::Backend::submit) to the store, whose task dispatches the reply. A reply
//! that comes while the store's `submit` is on the stack is handled after it. No caller has to be polled for others to
//! make progress.
//!
//! Lock order, as defined in `sync.rs`: shard before entry; entry before agenda, deferred events and hold. No mutex is
//! held across an await, or while a waker, an observer or the backend is called. Debug builds panic at the first lock
//! or call that violates this.
//!
//! There are three exceptions: `Backend::server_now` and the clock, which only read, are called while the entry is
//! locked, and so is the waker of the keeper, which is a task of this crate.

mod acquire;
mod activity;
mod agenda;
mod card;
mod dispatch;
mod entry;
mod handle;
mod hold_state;
mod keeper;
mod release;
mod request;
mod runtime;
mod shared;
mod submit;

pub(crate) use acquire::PendingAcquire;
pub(crate) use entry::{AcquireResult, LockEntry};
pub(crate) use handle::Handle;
pub use handle::ShutdownReport;
pub(crate) use hold_state::HoldState;
pub(crate) use keeper::SHUTDOWN;
pub(crate) use release::{PendingRelease, downgrade, guard_dropped};
pub use runtime::has_timer;
pub(crate) use runtime::{Place, is_async_context};
pub(crate) use shared::Parts;

use shared::Shared;
use std::sync::{Arc, Weak};

/// Starts the driver of a factory.
pub(crate) fn start(parts: Parts) -> Arc<Handle> {
    let shared = Arc::new_cyclic(|me: &Weak<Shared>| Shared::new(parts, me.clone()));
    if let Some(subscriptions) = &shared.subscriptions {
        let listener = Arc::downgrade(&shared);
        let _ = shared.subscriber.set(subscriptions.register_listener(listener));
    }
    Handle::new(shared)
}
