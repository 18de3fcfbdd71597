//! The state of a lock that a handler may request: not requested, being acquired, or settled.

use super::slot::{Answer, LockCall, LockSlot};
use crate::{
    acquire::Acquire,
    detach::{DetachedTasks, KeepLock},
    handle::{Held, LockStatus, Watch},
    reject::{RejectReason, RejectionBody},
    request::{Fallback, LockRequest},
};
use http::Response;
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tokio::sync::oneshot;

/// The lock that a handler may request.
pub(super) struct Claim {
    stage: Stage,
    /// The channel to the inner detaching service.
    keep: Option<oneshot::Sender<KeepLock>>,
}

enum Stage {
    /// The handler has not requested its lock.
    Unasked(oneshot::Receiver<LockCall>),
    Acquiring(Acquire, oneshot::Sender<Answer>),
    /// The handler has received its result, or will not request a lock.
    Settled,
}

/// The decision for a handler that requested its lock.
pub(super) enum Decision {
    /// The handler continues, with or without a lock to watch.
    GoOn(Option<Watch>),
    /// The layer responds in place of the handler.
    Reject(Response<RejectionBody>),
}

impl Claim {
    /// Returns the claim of a request and the slot for its handler.
    pub(super) fn new(lock: &LockRequest) -> (Self, LockSlot) {
        let (ask, asked) = oneshot::channel();
        let (keep, kept) = lock.config.tasks().map(|_: &DetachedTasks| oneshot::channel()).unzip();
        (Self { stage: Stage::Unasked(asked), keep }, LockSlot::new(ask, kept))
    }

    /// Completes when a handler that requested its lock has to be polled again, or dropped. Stays
    /// pending until the handler requests the lock, and after the decision.
    pub(super) fn poll(&mut self, lock: &mut LockRequest, cx: &mut Context<'_>) -> Poll<Decision> {
        loop {
            match &mut self.stage {
                Stage::Unasked(asked) => match ready!(Pin::new(asked).poll(cx)) {
                    Ok(LockCall { names, reply }) => {
                        lock.ask();
                        match names.map_err(RejectReason::Key).and_then(|names| lock.acquire(names)) {
                            Ok(acquire) => self.stage = Stage::Acquiring(acquire, reply),
                            Err(reason) => return Poll::Ready(self.without_lock(reason, lock, reply)),
                        }
                    }
                    Err(_) => self.stage = Stage::Settled,
                },
                Stage::Acquiring(acquire, reply) => {
                    if reply.poll_closed(cx).is_ready() {
                        self.stage = Stage::Settled;
                        lock.leave();
                        continue;
                    }
                    let guard = ready!(Pin::new(acquire).poll(cx));
                    let Stage::Acquiring(_, reply) = std::mem::replace(&mut self.stage, Stage::Settled)
                    else {
                        continue;
                    };
                    return Poll::Ready(match lock.acquired(guard) {
                        Ok(held) => {
                            Decision::GoOn(self.settle(LockStatus::held(&held), Some(held), lock, reply))
                        }
                        Err(reason) => self.without_lock(reason, lock, reply),
                    });
                }
                Stage::Settled => return Poll::Pending,
            }
        }
    }

    fn without_lock(
        &mut self,
        reason: RejectReason,
        lock: &mut LockRequest,
        reply: oneshot::Sender<Answer>,
    ) -> Decision {
        self.stage = Stage::Settled;
        match lock.without_lock(reason, None) {
            Fallback::PassThrough(unlocked) => {
                Decision::GoOn(self.settle(LockStatus::Unlocked(unlocked), None, lock, reply))
            }
            Fallback::Reject(response) => Decision::Reject(response),
        }
    }

    /// Lets the handler continue. If the handler was already dropped, the lock is released here.
    fn settle(
        &mut self,
        status: LockStatus,
        held: Option<Arc<Held>>,
        lock: &mut LockRequest,
        reply: oneshot::Sender<Answer>,
    ) -> Option<Watch> {
        reply.send(Answer::new(status, held.as_ref())).ok()?;
        // Nothing receives the lock if there is no detaching service, or if it has ended.
        if let (Some(to), Some(keep)) = (self.keep.take(), lock.keep_lock(held.as_ref())) {
            drop(to.send(keep));
        }
        held.map(|held| Watch::new(held, lock.config.on_lost()))
    }
}
