//! The guard of a set, the shared view of its holds, and the first loss among them.

use super::error::MemberLost;
use crate::{
    error::LockError, guard::LockGuard, hold::Hold, ids::FencingToken, machine::ReleaseOutcome,
    name::LockName, owner::Owner,
};
use futures_util::{
    Stream,
    future::{BoxFuture, join_all},
    stream::FuturesUnordered,
};
use std::{
    fmt,
    future::{Future, poll_fn},
    ops::Deref,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// A held set of locks. The locks are released by [`release`](Self::release), or when the guard is dropped.
///
/// It dereferences to a [`SetHold`], which provides the tokens by name, and [`lost`](SetHold::lost), which completes at
/// the first loss. As with a [`LockGuard`], a guard does not prove that the locks are still held.
///
/// # Dropping
/// Drop never blocks, as with a [`LockGuard`]; the keeper sends the releases.
#[must_use = "the locks are released immediately if the guard is not kept"]
#[clippy::has_significant_drop]
pub struct LockSetGuard {
    guards: Vec<LockGuard>,
    hold: SetHold,
}

impl LockSetGuard {
    /// Creates the guard of a set from the guards of its locks, sorted by name.
    pub(super) fn new(guards: Vec<LockGuard>) -> Self {
        let holds = guards.iter().map(LockGuard::hold).collect();
        Self { guards, hold: SetHold { holds } }
    }

    /// Returns a shared view of the holds. It can be cloned and sent to other tasks, and cannot release the locks.
    #[must_use]
    pub fn hold(&self) -> SetHold {
        self.hold.clone()
    }

    /// Releases all locks concurrently and returns whether each was still held, sorted by name.
    ///
    /// It waits for the store for at most two operation timeouts.
    ///
    /// # Errors
    /// The same errors as [`LockGuard::release`], separately for each lock.
    ///
    /// # Cancel safety
    /// Cancel safe: whenever the future is dropped, even before its first poll, all locks are released in the
    /// background.
    pub async fn release(self) -> Vec<(LockName, Result<ReleaseOutcome, LockError>)> {
        give_back(self.guards).await
    }

    /// Starts a [`release`](Self::release), which continues in the background.
    #[doc(hidden)]
    pub fn start_release(self) {
        self.guards.into_iter().for_each(LockGuard::start_release);
    }
}

impl Deref for LockSetGuard {
    type Target = SetHold;
    fn deref(&self) -> &SetHold {
        &self.hold
    }
}

impl fmt::Debug for LockSetGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LockSetGuard").field(&self.hold.holds()).finish()
    }
}

/// Releases all guards together.
pub(super) async fn give_back(guards: Vec<LockGuard>) -> Vec<(LockName, Result<ReleaseOutcome, LockError>)> {
    let release = |guard: LockGuard| async move { (guard.name().clone(), guard.release().await) };
    join_all(guards.into_iter().map(release)).await
}

/// A cloneable, read-only view of the locks of a held set. It cannot release them, and may outlive
/// the guard.
#[derive(Clone)]
pub struct SetHold {
    /// Sorted by name; at least one.
    holds: Arc<[Hold]>,
}

impl SetHold {
    /// Returns the holds, sorted by name.
    #[must_use]
    pub fn holds(&self) -> &[Hold] {
        &self.holds
    }

    /// Returns the hold of the lock with this name; `None` if the set does not contain it.
    #[must_use]
    pub fn hold_of(&self, name: impl AsRef<str>) -> Option<&Hold> {
        let name = name.as_ref();
        let place = self.holds.binary_search_by(|hold| hold.name().as_str().cmp(name)).ok()?;
        self.holds.get(place)
    }

    /// Returns the names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &LockName> {
        self.holds.iter().map(Hold::name)
    }

    /// Returns the fencing token of the lock with this name; `None` if the set does not contain the name. Tokens
    /// increase per name; tokens of different names cannot be compared.
    #[must_use]
    pub fn fencing_token(&self, name: impl AsRef<str>) -> Option<FencingToken> {
        self.hold_of(name).map(Hold::fencing_token)
    }

    /// Returns the owner of all holds. Acquiring one of the locks with this owner re-enters its hold.
    #[must_use]
    pub fn owner(&self) -> Option<&Owner> {
        self.holds.first().map(Hold::owner)
    }

    /// Returns `true` if every hold is currently valid; see [`Hold::is_held`].
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.holds.iter().all(Hold::is_held)
    }

    /// Returns the time for which all holds stay valid without a further renewal; zero if one has ended.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.holds.iter().map(Hold::remaining).min().unwrap_or_default()
    }

    /// Completes when one of the locks is lost, and returns that loss. It never completes if all are released.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is lost by dropping the future.
    pub fn lost(&self) -> impl Future<Output = MemberLost> + Send + 'static {
        let holds = self.holds.clone();
        async move {
            let mut losses = Losses::default();
            holds.iter().cloned().for_each(|hold| losses.add(hold));
            losses.first().await
        }
    }

    /// Returns the first lost lock in the order of the names, if any. It checks the clock, as
    /// [`is_held`](Self::is_held) does.
    #[doc(hidden)]
    #[must_use]
    pub fn first_lost(&self) -> Option<MemberLost> {
        first_lost(&self.holds)
    }
}

impl fmt::Debug for SetHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SetHold").field(&self.holds).finish()
    }
}

/// Holds that are watched together.
#[derive(Default)]
pub(super) struct Losses {
    holds: Vec<Hold>,
    /// Wakes the task when a hold is lost.
    wakes: FuturesUnordered<BoxFuture<'static, MemberLost>>,
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
            // `None`: nothing is watched.
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

/// Returns the first of these holds that is lost according to the clock.
fn first_lost(holds: &[Hold]) -> Option<MemberLost> {
    holds.iter().find_map(|hold| {
        let reason = hold.lost_reason()?;
        Some(MemberLost { name: hold.name().clone(), reason })
    })
}
