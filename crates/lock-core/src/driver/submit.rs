//! Requests to the store. Each yields exactly one event: when it is answered, when the store drops it, or when it times
//! out.

use super::{
    agenda::{Answered, Expire},
    entry::{Errors, LockEntry},
    request::{IoPolicy, Request, event},
    shared::Shared,
};
use crate::{
    backend::{
        Applied, BackendError, BackendErrorKind, Operation, OperationReply, Receiver, Submission, leave_to,
        poll_in_place,
    },
    machine::{Event, Failure, WatchAnswer},
    observer::LockEvent,
    sync::{Handle, Mutex, enter, lock, rank},
    time::Moment,
    wake::contained,
};
use futures_util::task::AtomicWaker;
use std::{
    fmt,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// The maximum timeout of a subscription request, which belongs to no lease.
const MAX_WATCH: Duration = Duration::from_secs(3);

/// An operation that was submitted to the store.
pub(super) struct Submitted {
    phase: Mutex<rank::Submitted, Phase>,
    entry: Arc<LockEntry>,
    operation: Operation,
    timeout: Duration,
    sent: Moment,
    id: u64,
    /// Woken when the operation has timed out.
    unwanted: AtomicWaker,
}

enum Phase {
    /// The store's `submit` is on the stack. Its caller handles a reply that comes meanwhile, so that a chain of immediate
    /// replies does not grow the stack.
    Submitting(Arc<Shared>),
    Answered(OperationReply),
    /// The reply is dispatched by the store's task. The factory is not referred to after it: an operation that timed out
    /// may stay in the store forever.
    Waiting(Arc<Shared>, Moment),
    Done,
}

impl Submitted {
    /// Ends the wait. Returns the factory only to the first caller, which then delivers the event.
    fn end_wait(&self) -> Option<(Arc<Shared>, Moment)> {
        let mut phase = lock(&self.phase);
        match std::mem::replace(&mut *phase, Phase::Done) {
            Phase::Waiting(shared, due) => Some((shared, due)),
            other => {
                *phase = other;
                None
            }
        }
    }

    /// Begins the wait, unless the reply came while the store's `submit` was on the stack.
    fn wait(&self, shared: &Arc<Shared>, due: Moment) -> Option<OperationReply> {
        let mut phase = lock(&self.phase);
        match std::mem::replace(&mut *phase, Phase::Waiting(shared.clone(), due)) {
            Phase::Answered(reply) => {
                *phase = Phase::Done;
                Some(reply)
            }
            _ => None,
        }
    }

    /// Keeps the reply if the store's `submit` is on the stack, or returns it.
    fn keep(&self, reply: OperationReply) -> Option<OperationReply> {
        let mut phase = lock(&self.phase);
        if !matches!(*phase, Phase::Submitting(_)) {
            return Some(reply);
        }
        *phase = Phase::Answered(reply);
        None
    }

    /// Returns the event for the reply. Keeps its error for waiters and observers; the machine only needs its kind.
    fn event(&self, shared: &Shared, reply: OperationReply) -> Event {
        let name = &self.entry.name;
        let votes = reply.as_ref().map_or_else(BackendError::votes, |reply| &reply.votes);
        if !votes.is_empty() {
            shared.observe(|backend| LockEvent::Voted { backend, name, votes });
        }
        event(&self.operation, self.sent, reply, |error| {
            let failure = Failure::from(&error);
            let error = Some(Arc::new(error));
            let before = match (&self.operation, &mut lock(&self.entry.state).errors) {
                (Operation::Acquire(_), Errors { acquire, .. }) => std::mem::replace(acquire, error),
                (Operation::Renew(_), Errors { renewal, .. }) => std::mem::replace(renewal, error),
                (Operation::Release(_), _) => error,
            };
            // Dropped after the mutex is released.
            drop(before);
            failure
        })
    }
}

impl Expire for Submitted {
    fn expire(&self) -> Option<Answered> {
        let (shared, _) = self.end_wait()?;
        let active = shared.activity.adopt();
        let message = format!("the store did not reply within {:?}", self.timeout);
        let error = BackendError::new(BackendErrorKind::Timeout, Applied::Unknown, message);
        let event = self.event(&shared, Err(error));
        self.unwanted.wake();
        Some(Answered { entry: self.entry.clone(), event, active })
    }
}

impl Receiver for Submitted {
    fn operation(&self) -> &Operation {
        &self.operation
    }

    fn complete(&self, reply: OperationReply) {
        let Some(reply) = self.keep(reply) else { return };
        let Some((shared, due)) = self.end_wait() else { return };
        let _active = shared.activity.adopt();
        shared.agenda.remove_operation(due, self.id);
        let event = self.event(&shared, reply);
        shared.dispatch(&self.entry, event, IoPolicy::Inline);
    }

    fn is_wanted(&self) -> bool {
        matches!(*lock(&self.phase), Phase::Submitting(_) | Phase::Waiting(..))
    }

    fn poll_unwanted(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.unwanted.register(cx.waker());
        if self.is_wanted() { Poll::Pending } else { Poll::Ready(()) }
    }

    fn runtime(&self) -> Option<Handle> {
        match &*lock(&self.phase) {
            Phase::Submitting(shared) => shared.home.runtime(),
            _ => None,
        }
    }
}

impl fmt::Debug for Submitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submitted").field("operation", &self.operation).finish_non_exhaustive()
    }
}

impl Shared {
    /// Starts a request, and returns its event if it is answered immediately.
    pub(super) fn start(
        self: &Arc<Self>,
        entry: &Arc<LockEntry>,
        request: Request,
        policy: IoPolicy,
    ) -> Option<Event> {
        match request {
            // Sent together with others that are due soon.
            Request::Operation { operation: Operation::Renew(_), .. } if policy != IoPolicy::Discard => {
                self.agenda.put_renewal(entry, request);
                None
            }
            _ => match policy {
                IoPolicy::Discard => None,
                IoPolicy::Inline => self.perform(entry, request),
                IoPolicy::Deferred => {
                    self.agenda.put(|work| work.requests.push((entry.clone(), request)));
                    None
                }
            },
        }
    }

    /// Sends a request, and handles its event if it is answered immediately.
    pub(super) fn perform_and_dispatch(self: &Arc<Self>, entry: &Arc<LockEntry>, request: Request) {
        if let Some(event) = self.perform(entry, request) {
            self.dispatch(entry, event, IoPolicy::Inline);
        }
    }

    /// Sends a request, and returns its event if it is answered immediately.
    fn perform(self: &Arc<Self>, entry: &Arc<LockEntry>, request: Request) -> Option<Event> {
        match request {
            Request::Operation { operation, timeout, sent } => self.submit(entry, operation, timeout, sent),
            Request::Watch | Request::Unwatch => self.watch(entry, request),
        }
    }

    /// Submits an operation and starts its timeout.
    fn submit(
        self: &Arc<Self>,
        entry: &Arc<LockEntry>,
        operation: Operation,
        timeout: Duration,
        sent: Moment,
    ) -> Option<Event> {
        let now = self.clock.now();
        let (id, due) = (self.fresh_id(), now + timeout);
        let submitted = Arc::new(Submitted {
            phase: Mutex::new(Phase::Submitting(self.clone())),
            entry: entry.clone(),
            operation,
            timeout,
            sent,
            id,
            unwanted: AtomicWaker::new(),
        });
        self.activity.begin();
        let submission = Submission::new(submitted.clone());
        // Outside of a runtime, a client of the store has neither sockets nor timers.
        let outside = if Handle::try_current().is_err() { self.home.runtime() } else { None };
        // A panic drops the submission.
        contained("a store", || match &outside {
            Some(runtime) => enter(runtime, || self.backend.submit(submission)),
            None => self.backend.submit(submission),
        });
        let Some(reply) = submitted.wait(self, due) else {
            self.agenda.add_operation(due, id, submitted.clone(), now);
            // A reply that came just before found no operation to remove.
            if !submitted.is_wanted() {
                self.agenda.remove_operation(due, id);
            }
            return None;
        };
        let _active = self.activity.adopt();
        Some(submitted.event(self, reply))
    }

    /// Subscribes to a name, or ends the subscription.
    fn watch(self: &Arc<Self>, entry: &Arc<LockEntry>, request: Request) -> Option<Event> {
        let unknown = request.unknown();
        let (Some(subscriptions), Some(subscriber)) = (self.subscriptions.clone(), self.subscriber.get())
        else {
            return Some(unknown);
        };
        let (subscriber, name) = (*subscriber, entry.stored.clone());
        let limit = self.default_terms.as_ref().map_or(MAX_WATCH, |terms| terms.operation_timeout);
        let work = async move {
            let answer = |done: Result<(), BackendError>| match done {
                Ok(()) => WatchAnswer::Acknowledged,
                Err(_) => WatchAnswer::Failed,
            };
            match request {
                Request::Watch => Event::Watched(answer(subscriptions.subscribe(subscriber, name).await)),
                _ => Event::Unwatched(answer(subscriptions.unsubscribe(subscriber, name).await)),
            }
        };
        let (now, runtime, mut work) = (self.clock.now(), self.home.runtime(), Box::pin(work));
        match poll_in_place(runtime.as_ref(), &mut work) {
            Some(Poll::Ready(event)) => return Some(event),
            Some(Poll::Pending) => {}
            None => return Some(unknown),
        }
        let (id, due) = (self.fresh_id(), now + limit.min(MAX_WATCH));
        let (shared, unwanted) = (Mutex::new(Some(self.clone())), AtomicWaker::new());
        let subscribing = Arc::new(Subscribing { shared, entry: entry.clone(), unknown, id, due, unwanted });
        self.activity.begin();
        self.agenda.add_operation(due, id, subscribing.clone(), now);
        let reported = Reported(subscribing);
        leave_to(runtime.as_ref(), async move {
            tokio::select! {
                biased;
                event = &mut work => reported.0.answer(event),
                () = poll_fn(|cx| reported.0.poll_unwanted(cx)) => {}
            }
        });
        None
    }
}

/// A subscription request whose future is pending. It yields exactly one event, even if its runtime ends or is not driven.
struct Subscribing {
    /// Taken with the answer.
    shared: Mutex<rank::Submitted, Option<Arc<Shared>>>,
    entry: Arc<LockEntry>,
    /// The event if the request is not answered.
    unknown: Event,
    id: u64,
    due: Moment,
    /// Woken when the request has timed out.
    unwanted: AtomicWaker,
}

impl Subscribing {
    fn answer(&self, event: Event) {
        let Some(shared) = lock(&self.shared).take() else { return };
        let _active = shared.activity.adopt();
        shared.agenda.remove_operation(self.due, self.id);
        shared.dispatch(&self.entry, event, IoPolicy::Inline);
    }

    fn poll_unwanted(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.unwanted.register(cx.waker());
        if lock(&self.shared).is_some() { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Expire for Subscribing {
    fn expire(&self) -> Option<Answered> {
        let shared = lock(&self.shared).take()?;
        self.unwanted.wake();
        let (entry, event) = (self.entry.clone(), self.unknown.clone());
        Some(Answered { entry, event, active: shared.activity.adopt() })
    }
}

impl fmt::Debug for Subscribing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscribing").field("unknown", &self.unknown).finish_non_exhaustive()
    }
}

/// A subscription request that is answered as unknown when its task is dropped.
struct Reported(Arc<Subscribing>);

impl Drop for Reported {
    fn drop(&mut self) {
        self.0.answer(self.0.unknown.clone());
    }
}
