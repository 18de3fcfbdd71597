//! The part of a factory with side effects: it spawns and wakes tasks, sleeps, reads the clock and calls the backend.
//!
//! ```text
//!   5  acquire, release ── shutdown, handle ── listener      what callers and stores use
//!   4  worker ── timekeeper ── work ── card                  the tasks of a runtime
//!   3  dispatch ── notification                              event ▶ machine ▶ commands ▶ effects
//!      io ── submit, call                                    operations on the store; each yields one event
//!   2  shared                                                the state that all parts of a factory share
//!   1  op, work_queue, deadlines, schedule, own_card         one operation; queued work; what is due, and when
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
//! Operations go to the store's [`Pipeline`](crate::backend::Pipeline) if it has one; the pipeline's task receives
//! the reply and dispatches it. Other stores return futures: a future is polled once in place and, if pending, by
//! the worker of that runtime. In both cases no caller has to be polled for others to make progress.
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
mod call;
mod card;
mod deadlines;
mod dispatch;
mod entry;
mod handle;
mod hold_state;
mod io;
mod listener;
mod notification;
mod op;
mod own_card;
mod release;
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
