//! Work that no caller waits for: late replies, undos and heals.
//!
//! This work ends at the latest when its leases have expired and its time limit for replies has passed. It also ends
//! with the runtime that started it; the leases then expire on the nodes.

use crate::sync::Handle;
use std::{
    future::Future,
    task::{Context, Waker},
};

/// Polls `work` once in place, and continues it in a task of the current runtime if it is not finished. Outside a
/// runtime, unfinished work is dropped.
pub(super) fn in_background(work: impl Future<Output = ()> + Send + 'static) {
    let mut work = Box::pin(work);
    if work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
        return;
    }
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(work);
    }
}
