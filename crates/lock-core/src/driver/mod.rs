//! The part of a factory with side effects: it spawns and wakes tasks, sleeps, reads the clock and calls the backend.
//!
//! ```text
//!   5  acquire, release ── shutdown, handle ── listener      what callers and stores use
//!   4  worker ── timekeeper ── work ── card                  the tasks of a runtime
//!   3  dispatch ── notification                              event ▶ machine ▶ commands ▶ effects
//!      submit                                                requests to the store; each yields one event
//!   2  shared                                                the state that all parts of a factory share
//!   1  schedule ── work_queue ── request, own_card           what is due, and when; queued work; one request
//!      table ── entry ── slot, hold_state                    a lock name in this process
//!   0  activity, alarm ── backstop, waker_set, runtime       helpers that do not depend on locks
//! ```
//!
//! A file imports only from its own row or a lower one.
//!
//! An *entry* is a lock name that this process holds or waits for: a mutex around its machine and the slots of
//! waiting futures. A task that has an event locks the mutex, handles the event, unlocks, and only then wakes tasks
//! and calls the store. A caller's cancellation is an event like any other.
//!
//! Operations are [submitted](crate::backend::Backend::submit) to the store, whose task dispatches the reply. A reply that comes
//! while the store's `submit` is on the stack is handled after it. No caller has to be polled for others to make progress.
//!
//! Lock order, as defined in `sync.rs`: shard before entry; entry before schedule, deadlines, hold, deferred
//! events; work queue and alarm last. No mutex is held across an await, or while a waker, an observer or the backend is
//! called. Debug builds panic at the first lock or call that violates this.
//!
//! There are three exceptions: `Backend::server_now` and the clock, which only read, are called while the entry is
//! locked, and a worker, which is a task of this crate, is woken while the list of workers is locked.

mod acquire;
mod activity;
mod alarm;
mod backstop;
mod card;
mod dispatch;
mod entry;
mod handle;
mod hold_state;
mod listener;
mod notification;
mod own_card;
mod release;
mod request;
mod runtime;
mod schedule;
mod shared;
mod shutdown;
mod slot;
mod submit;
mod table;
mod timekeeper;
mod validity;
mod waker_set;
mod work;
mod work_queue;
mod worker;

pub(crate) use acquire::{AcquireParams, PendingAcquire};
pub(crate) use entry::LockEntry;
pub(crate) use handle::Handle;
pub(crate) use hold_state::HoldState;
pub use runtime::has_timer;
pub(crate) use runtime::is_async_context;
pub(crate) use shared::Parts;
pub use shutdown::ShutdownReport;
pub(crate) use slot::AcquireResult;
pub(crate) use worker::SHUTDOWN;

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
