//! Work that nobody waits for: stragglers, undos, heals. It ends by itself, at the latest when the leases that it is about are
//! over; and with the runtime that it was begun in, after which those leases end by themselves.

use crate::sync::Handle;
use std::{
    future::Future,
    task::{Context, Waker},
};

/// Goes on with `work`: in place as far as that is possible at once, then in a task of the current runtime.
pub(super) fn go_on(work: impl Future<Output = ()> + Send + 'static) {
    let mut work = Box::pin(work);
    if work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
        return;
    }
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(work);
    }
}
