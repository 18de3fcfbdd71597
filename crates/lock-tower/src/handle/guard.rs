//! A request's guard and the view of its hold, for one lock or a set.

use futures_util::{FutureExt, future::BoxFuture};
use lock_core::{
    FencingToken, Hold, LockGuard, LostReason,
    set::{LockSetGuard, SetHold},
};

pub(crate) enum RequestGuard {
    One(LockGuard),
    Set(LockSetGuard),
}

impl RequestGuard {
    pub(super) fn hold(&self) -> RequestHold {
        match self {
            Self::One(guard) => RequestHold::One(guard.hold()),
            Self::Set(guard) => RequestHold::Set(guard.hold()),
        }
    }

    /// Returns the fencing token, or `None` for a set, which has one token per name.
    pub(crate) fn fencing_token(&self) -> Option<FencingToken> {
        match self {
            Self::One(guard) => Some(guard.fencing_token()),
            Self::Set(_) => None,
        }
    }

    /// Starts the release, which continues in the background.
    pub(super) fn start_release(self) {
        match self {
            Self::One(guard) => guard.start_release(),
            Self::Set(guard) => guard.start_release(),
        }
    }
}

pub(crate) enum RequestHold {
    One(Hold),
    Set(SetHold),
}

impl RequestHold {
    /// Completes when a lock is lost.
    pub(super) fn lost(&self) -> BoxFuture<'static, LostReason> {
        match self {
            Self::One(hold) => hold.lost().boxed(),
            Self::Set(hold) => hold.lost().map(|lost| lost.reason).boxed(),
        }
    }

    /// Returns the reason for the loss, if a lock is lost. Checks the clock, since timers can fire
    /// late.
    pub(super) fn lost_reason(&self) -> Option<LostReason> {
        match self {
            Self::One(hold) => hold.lost_reason(),
            Self::Set(hold) => hold.first_lost().map(|lost| lost.reason),
        }
    }
}
