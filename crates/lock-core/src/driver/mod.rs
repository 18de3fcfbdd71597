//! The only place with effects: it spawns, sleeps, reads the clock, wakes, and calls the backend.
//!
//! ```text
//!   5  acquire, release ── shutdown, handle ── listener      what callers and stores use
//!   4  worker ── timekeeper ── work                          the tasks of a runtime
//!   3  dispatch ── notification                              event ▶ machine ▶ commands ▶ effects
//!      io ── submit, call                                    operations on the store, each becomes one event
//!   2  shared                                                the parts of a factory, together
//!   1  op, work_queue, deadlines, schedule                   what is to be done, left to do, due
//!      table ── entry ── slot, hold_state                    a lock name of this process
//!   0  activity, alarm ── backstop, waker_set, runtime       helpers that know no lock
//! ```
//!
//! A file imports only from its own row or a lower one.
//!
//! An *entry* is a lock name that this process holds or waits for: a mutex over its machine and the slots of waiting
//! futures. A task that has an event takes the mutex, handles it, lets go, and only then wakes and calls. So cancelling a
//! caller is just an event.
//!
//! Operations go to the store's [`Pipeline`](crate::backend::Pipeline) if it has one, whose own task brings the answer and
//! dispatches it. Other stores have futures: a future is polled once in place; if it is pending, the worker of that runtime
//! waits for it. Either way nothing that others wait for depends on the poll of a caller.
//!
//! Order of mutexes, as `sync/rank.rs` has it: shard before entry; entry before schedule, deadlines, hold, deferred events;
//! work queue and alarm last. No mutex is held over an await, a waker, an observer or a call of the backend. Debug builds
//! panic at the first lock and at the first call that break this.
//!
//! Three calls are made under a mutex nevertheless: `Backend::server_now` and the clock, which only read, under that of the
//! entry; and the wake-up of a worker, which is a task of this crate, under that of the list of workers.

mod acquire;
mod activity;
mod alarm;
mod backstop;
mod call;
mod deadlines;
mod dispatch;
mod entry;
mod handle;
mod hold_state;
mod io;
mod listener;
mod notification;
mod op;
mod release;
mod runtime;
mod schedule;
mod shared;
mod shutdown;
mod slot;
mod submit;
mod table;
mod timekeeper;
mod waker_set;
mod work;
mod work_queue;
mod worker;

pub(crate) use acquire::{AcquireParams, PendingAcquire};
pub(crate) use entry::LockEntry;
pub(crate) use handle::Handle;
pub(crate) use hold_state::HoldState;
pub(crate) use runtime::has_timer;
pub(crate) use shared::Parts;
pub use shutdown::ShutdownReport;
pub(crate) use slot::AcquireResult;
pub(crate) use worker::SHUTDOWN;

use shared::Shared;
use std::sync::{Arc, Weak};

/// Builds the driver of a factory.
pub(crate) fn start(parts: Parts) -> Arc<Handle> {
    let shared = Arc::new_cyclic(|me: &Weak<Shared>| Shared::new(parts, me.clone()));
    if let Some(subscriptions) = &shared.subscriptions {
        let listener = Arc::downgrade(&shared);
        let _ = shared.subscriber.set(subscriptions.register_listener(listener));
    }
    Handle::new(shared)
}
