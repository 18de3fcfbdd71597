//! The lock of a request, from the call of its handler to the decision about it.

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
    /// For the detaching service inside.
    keep: Option<oneshot::Sender<KeepLock>>,
}

enum Stage {
    /// The handler reads its request.
    Unasked(oneshot::Receiver<LockCall>),
    Acquiring(Acquire, oneshot::Sender<Answer>),
    /// The handler has its answer, or will not request a lock.
    Settled,
}

/// The decision on a handler that requested its lock.
pub(super) enum Decision {
    /// It continues, with a lock to watch or without one.
    GoOn(Option<Watch>),
    /// The layer responds.
    Reject(Response<RejectionBody>),
}

impl Claim {
    /// Returns the claim of a request, and its end for the handler.
    pub(super) fn new(lock: &LockRequest) -> (Self, LockSlot) {
        let (ask, asked) = oneshot::channel();
        let (keep, kept) = lock.config.tasks().map(|_: &DetachedTasks| oneshot::channel()).unzip();
        (Self { stage: Stage::Unasked(asked), keep }, LockSlot::new(ask, kept))
    }

    /// Completes when a handler that requested its lock has to be polled again, or dropped. It is pending until the
    /// handler requests the lock, and after the decision.
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

    /// Lets the handler continue. A handler that is already gone has no lock to watch: the lock is released here.
    fn settle(
        &mut self,
        status: LockStatus,
        held: Option<Arc<Held>>,
        lock: &mut LockRequest,
        reply: oneshot::Sender<Answer>,
    ) -> Option<Watch> {
        reply.send(Answer::new(status, held.as_ref())).ok()?;
        // Without a detaching service, or if it has ended, nothing receives it.
        if let (Some(to), Some(keep)) = (self.keep.take(), lock.keep_lock(held.as_ref())) {
            drop(to.send(keep));
        }
        held.map(|held| Watch::new(held, lock.config.on_lost()))
    }
}
