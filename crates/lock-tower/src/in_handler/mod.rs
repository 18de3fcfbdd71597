//! Locks that a handler acquires for a parsed value.
//!
//! A handler that parses its own key starts before it has its lock. It sends the names through a slot in the extensions
//! of its request and waits; the layer's future, which polls the handler, acquires the lock and replies. Waits,
//! rejections, losses and the end of the body are therefore the same code for both kinds of keys. A rejected handler is
//! dropped at its await. A detached handler moves to its task when it has its lock; before that, it ends with its
//! client.

mod slot;

pub use slot::LockSlot;

use crate::{
    body::LockedBody,
    detach::{DetachedTasks, Keep, KeepLock},
    handle::{Acquire, Held, LockStatus, Watch},
    reject::{RejectReason, RejectionBody},
    request::{Fallback, LockRequest},
    service::Running,
};
use http::Response;
use http_body::Body;
use pin_project_lite::pin_project;
use slot::{Answer, LockCall};
use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tokio::sync::oneshot;
use tracing::Span;

pin_project! {
    /// The future of a request whose handler requests its lock.
    ///
    /// # Cancel safety
    /// Dropping the future drops the handler and releases the lock in the background. A waiting request leaves the
    /// queue.
    #[must_use = "futures do nothing unless polled"]
    pub struct InHandlerFuture<F> {
        #[pin]
        stage: Stage<F>,
        span: Span,
    }
}

pin_project! {
    #[project = StageProj]
    enum Stage<F> {
        NoLockNeeded { #[pin] handler: F },
        Running { #[pin] running: Running<F>, claim: Claim, lock: LockRequest },
        /// The handler has ended, or the layer has responded in its place.
        Done,
    }
}

impl<F> InHandlerFuture<F> {
    pub(crate) fn no_lock_needed(handler: F) -> Self {
        Self { stage: Stage::NoLockNeeded { handler }, span: Span::none() }
    }

    pub(crate) fn new(handler: F, claim: Claim, lock: LockRequest) -> Self {
        let span = lock.observers.span().clone();
        Self { stage: Stage::Running { running: Running::new(handler, None), claim, lock }, span }
    }
}

impl<F, R, E> Future for InHandlerFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Body,
{
    type Output = Result<Response<LockedBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let _entered = this.span.enter();
        let mut stage = this.stage;
        loop {
            let response = match stage.as_mut().project() {
                StageProj::NoLockNeeded { handler } => {
                    return handler.poll(cx).map_ok(|response| response.map(LockedBody::unlocked));
                }
                StageProj::Running { mut running, claim, lock } => match running.as_mut().poll_head(lock, cx)
                {
                    Poll::Ready(response) => response,
                    Poll::Pending => match ready!(claim.poll(lock, cx)) {
                        Decision::GoOn(watch) => {
                            running.watch(watch);
                            continue;
                        }
                        Decision::Reject(rejection) => Ok(rejection.map(LockedBody::ready_made)),
                    },
                },
                StageProj::Done => panic!("`InHandlerFuture` polled after completion"),
            };
            // Drops the claim: a task that the handler spawned may still be waiting for the lock, and the caller may
            // keep this future.
            stage.set(Stage::Done);
            return Poll::Ready(response);
        }
    }
}

/// The lock that a handler may request.
pub(crate) struct Claim {
    progress: Progress,
    /// The channel to the future of a handler that may be detached.
    keep: Option<oneshot::Sender<KeepLock>>,
}

enum Progress {
    /// The handler has not requested its lock.
    Unasked(oneshot::Receiver<LockCall>),
    Acquiring(Acquire, oneshot::Sender<Answer>),
    /// The handler has received its result, or will not request a lock.
    Settled,
}

/// The decision for a handler that requested its lock.
enum Decision {
    /// The handler continues, with or without a lock to watch.
    GoOn(Option<Watch>),
    /// The layer responds in place of the handler.
    Reject(Response<RejectionBody>),
}

impl Claim {
    /// Returns the claim of a request, the slot for its handler, and the lock that a detached handler keeps.
    pub(crate) fn new(lock: &LockRequest) -> (Self, LockSlot, Keep) {
        let (ask, asked) = oneshot::channel();
        let (keep, kept) = lock.config.tasks().map(|_: &DetachedTasks| oneshot::channel()).unzip();
        let claim = Self { progress: Progress::Unasked(asked), keep };
        (claim, LockSlot::new(ask), kept.map_or(Keep::Nothing, Keep::Later))
    }

    /// Completes when a handler that requested its lock has to be polled again, or dropped. Stays
    /// pending until the handler requests the lock, and after the decision.
    fn poll(&mut self, lock: &mut LockRequest, cx: &mut Context<'_>) -> Poll<Decision> {
        loop {
            match &mut self.progress {
                Progress::Unasked(asked) => match ready!(Pin::new(asked).poll(cx)) {
                    Ok(LockCall { names, reply }) => {
                        lock.ask();
                        match names.map_err(RejectReason::Key).and_then(|names| lock.acquire(names)) {
                            Ok(acquire) => self.progress = Progress::Acquiring(acquire, reply),
                            Err(reason) => return Poll::Ready(self.without_lock(reason, lock, reply)),
                        }
                    }
                    Err(_) => self.progress = Progress::Settled,
                },
                Progress::Acquiring(acquire, reply) => {
                    if reply.poll_closed(cx).is_ready() {
                        self.progress = Progress::Settled;
                        lock.leave();
                        continue;
                    }
                    let guard = ready!(Pin::new(acquire).poll(cx));
                    let Progress::Acquiring(_, reply) = mem::replace(&mut self.progress, Progress::Settled)
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
                Progress::Settled => return Poll::Pending,
            }
        }
    }

    fn without_lock(
        &mut self,
        reason: RejectReason,
        lock: &mut LockRequest,
        reply: oneshot::Sender<Answer>,
    ) -> Decision {
        self.progress = Progress::Settled;
        match lock.without_lock(reason, None) {
            Fallback::PassThrough(reason) => {
                Decision::GoOn(self.settle(LockStatus::Unlocked(reason), None, lock, reply))
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
        // Nothing receives the lock if the handler has ended.
        if let (Some(to), Some(keep)) = (self.keep.take(), lock.keep_lock(held.as_ref())) {
            drop(to.send(keep));
        }
        held.map(|held| Watch::new(held, lock.config.on_lost()))
    }
}
