//! Work that no caller waits for: stragglers, undos and heals.
//!
//! This work ends once the leases that it concerns have expired and the first replies have had their time. It also ends
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
