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
    observer::LockEventKind,
    sync::{Handle, Mutex, enter, lock, rank, timeout},
    time::Moment,
    wake::contained,
};
use futures_util::task::AtomicWaker;
use std::{
    fmt,
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
    /// The store's `submit` is on the stack. Its caller handles a reply that comes meanwhile, so that a chain of
    /// immediate replies does not grow the stack.
    Submitting(Arc<Shared>),
    Answered(OperationReply),
    /// The reply is dispatched by the store's task. The factory is not referred to after it: an operation that timed
    /// out may stay in the store forever.
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
        let votes = reply.as_ref().map_or_else(BackendError::votes, |reply| &reply.votes);
        if !votes.is_empty() {
            shared.observe(&self.entry.name, LockEventKind::Voted { votes });
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
        contained("a waker", || self.unwanted.wake());
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
        // The work itself limits its time, since the agenda does not.
        let late = unknown.clone();
        let work = async move { timeout(limit.min(MAX_WATCH), work).await.unwrap_or(late) };
        let (runtime, mut work) = (self.home.runtime(), Box::pin(work));
        match poll_in_place(runtime.as_ref(), &mut work) {
            Some(Poll::Ready(event)) => return Some(event),
            Some(Poll::Pending) => {}
            None => return Some(unknown),
        }
        self.activity.begin();
        let mut pending = Subscribing { shared: self.clone(), entry: entry.clone(), event: Some(unknown) };
        leave_to(runtime.as_ref(), async move {
            pending.event = Some(work.await);
            drop(pending);
        });
        None
    }
}

/// A subscription request in progress. Its event is dispatched when this is dropped, at the end of its task.
struct Subscribing {
    shared: Arc<Shared>,
    entry: Arc<LockEntry>,
    event: Option<Event>,
}

impl Drop for Subscribing {
    fn drop(&mut self) {
        let _active = self.shared.activity.adopt();
        if let Some(event) = self.event.take() {
            self.shared.dispatch(&self.entry, event, IoPolicy::Inline);
        }
    }
}
