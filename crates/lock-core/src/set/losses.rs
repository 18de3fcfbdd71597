//! The first loss among several holds.

use super::lost::MemberLost;
use crate::hold::Hold;
use futures_util::{Stream, stream::FuturesUnordered};
use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll},
};

type Loss = Pin<Box<dyn Future<Output = MemberLost> + Send>>;

/// Holds that are watched together.
#[derive(Default)]
pub(super) struct Losses {
    holds: Vec<Hold>,
    /// Wakes the task when a hold is lost.
    wakes: FuturesUnordered<Loss>,
}

impl Losses {
    pub(super) fn add(&mut self, hold: Hold) {
        let lost = hold.lost();
        let name = hold.name().clone();
        self.wakes.push(Box::pin(async move { MemberLost { name, reason: lost.await } }));
        self.holds.push(hold);
    }

    /// Returns the first hold that is lost according to the clock.
    pub(super) fn now(&self) -> Option<MemberLost> {
        first_lost(&self.holds)
    }

    /// Completes when the first hold is lost.
    ///
    /// Cancel safe: the next call finds the loss again.
    pub(super) async fn first(&mut self) -> MemberLost {
        poll_fn(|cx| self.poll_first(cx)).await
    }

    /// Each poll compares the clock with all deadlines: after the process was paused, timers fire late.
    fn poll_first(&mut self, cx: &mut Context<'_>) -> Poll<MemberLost> {
        if let Some(lost) = self.now() {
            return Poll::Ready(lost);
        }
        match Pin::new(&mut self.wakes).poll_next(cx) {
            Poll::Ready(Some(lost)) => Poll::Ready(lost),
            // Nothing is watched.
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

impl FromIterator<Hold> for Losses {
    fn from_iter<I: IntoIterator<Item = Hold>>(holds: I) -> Self {
        let mut losses = Self::default();
        holds.into_iter().for_each(|hold| losses.add(hold));
        losses
    }
}

/// Returns the first of these holds that is lost according to the clock.
pub(super) fn first_lost(holds: &[Hold]) -> Option<MemberLost> {
    holds.iter().find_map(|hold| {
        let reason = hold.lost_reason()?;
        Some(MemberLost { name: hold.name().clone(), reason })
    })
}
