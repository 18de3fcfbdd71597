//! Waits until a [`Clock`] reaches a moment.

use lock_core::{__private::has_timer, clock::Clock, clock::Moment};
use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll},
};
use tokio::time::{Sleep, sleep};

/// A timer whose moment may change. The clock decides when it is due, since the runtime's timers may fire early or
/// late.
#[derive(Default)]
pub(super) struct Timer(Option<(Moment, Pin<Box<Sleep>>)>);

/// Waits until this moment, or forever if the runtime has no timer.
pub(super) async fn pause(clock: &dyn Clock, until: Moment) {
    let mut timer = Timer::default();
    poll_fn(|cx| timer.poll(cx, clock, until)).await;
}

impl Timer {
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, clock: &dyn Clock, until: Moment) -> Poll<()> {
        loop {
            let now = clock.now();
            if now >= until {
                return Poll::Ready(());
            }
            let (at, mut sleep) = match self.0.take().filter(|(at, _)| *at == until) {
                Some(timer) => timer,
                None if has_timer() => (until, Box::pin(sleep(until.since(now)))),
                None => return Poll::Pending,
            };
            if sleep.as_mut().poll(cx).is_pending() {
                self.0 = Some((at, sleep));
                return Poll::Pending;
            }
        }
    }
}
