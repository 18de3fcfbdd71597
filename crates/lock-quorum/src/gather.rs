//! Waits for the replies of several nodes, up to a deadline.

use crate::timer::Timer;
use futures_util::{Stream, stream::FuturesUnordered};
use lock_core::clock::{Clock, Moment};
use std::{
    collections::VecDeque,
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll},
};

type Coming<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Replies in flight. The first poll sends the requests to all nodes before any reply is handled.
pub(super) struct Gather<T> {
    coming: FuturesUnordered<Coming<T>>,
    here: VecDeque<T>,
    timer: Timer,
}

impl<T> Gather<T> {
    pub(super) fn new() -> Self {
        Self { coming: FuturesUnordered::new(), here: VecDeque::new(), timer: Timer::default() }
    }

    pub(super) fn push(&self, answer: impl Future<Output = T> + Send + 'static) {
        self.coming.push(Box::pin(answer));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.here.is_empty() && self.coming.is_empty()
    }

    /// Returns the next reply, or `None` at `until` or if no reply is outstanding. Cancel safe: a reply that has
    /// arrived stays available for the next call.
    pub(super) async fn next(&mut self, clock: &dyn Clock, until: Moment) -> Option<T> {
        poll_fn(|cx| self.poll_next(cx, clock, until)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>, clock: &dyn Clock, until: Moment) -> Poll<Option<T>> {
        while let Poll::Ready(Some(answer)) = Pin::new(&mut self.coming).poll_next(cx) {
            self.here.push_back(answer);
        }
        if let Some(answer) = self.here.pop_front() {
            return Poll::Ready(Some(answer));
        }
        if self.coming.is_empty() {
            return Poll::Ready(None);
        }
        self.timer.poll(cx, clock, until).map(|()| None)
    }
}

impl<T> fmt::Debug for Gather<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gather").field("coming", &self.coming.len()).finish_non_exhaustive()
    }
}
