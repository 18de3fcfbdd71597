//! Starts operations on the store. Each yields exactly one event.

use super::{
    call::Call,
    entry::LockEntry,
    op::{Answers, IoPolicy, Op, Request},
    shared::Shared,
    waker_set::contained,
};
use crate::{
    backend::{BackendError, Reply},
    machine::{Event, Failure, WatchAnswer},
    observer::LockEvent,
    sync::Handle,
    time::Moment,
};
use std::{
    collections::BTreeMap,
    future::Future,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

/// The maximum timeout of a subscription request, which belongs to no lease.
const MAX_WATCH: Duration = Duration::from_secs(3);

/// The maximum number of renewals per call, which bounds the load on a slow store.
const MAX_RENEWALS: usize = 500;

impl Shared {
    /// Starts an operation, and returns its event if it is answered immediately.
    pub(super) fn start(self: &Arc<Self>, entry: &Arc<LockEntry>, op: Op, policy: IoPolicy) -> Option<Event> {
        if policy == IoPolicy::Discard {
            return None;
        }
        // A timekeeper sends renewals, batched with others that are due soon.
        if let Op::Renew { .. } = op {
            self.work.put_renewal(entry, op);
            self.set_alarm(Moment::START);
            return None;
        }
        let op = match policy {
            IoPolicy::Inline => self.submit(entry, op)?,
            IoPolicy::Deferred | IoPolicy::Discard => op,
        };
        // Started in place only if a worker can continue it. Outside of a runtime, a client of the store has neither
        // sockets nor timers.
        let here = Handle::try_current().ok().map(|runtime| runtime.id());
        let Some(here) = here.filter(|here| policy == IoPolicy::Inline && self.runtimes.has_worker(*here))
        else {
            self.defer(|work| work.ops.push((entry.clone(), op)));
            return None;
        };
        let call = match self.begin(entry, op) {
            Ok(event) => return Some(event),
            Err(call) => call.started(),
        };
        self.defer(|work| work.calls.push(call));
        // The worker may have ended with its runtime in the meantime. Nothing polls the call then, so it is given up:
        // its name need not wait until the call times out.
        if !self.runtimes.has_worker(here) {
            self.work.give_up_calls_of(here);
        }
        None
    }

    /// Stores the reply's error, if any, reports its votes, and returns the part that the machine needs.
    pub(super) fn outcome<T>(
        &self,
        op: &Op,
        entry: &LockEntry,
        answer: Result<Reply<T>, BackendError>,
    ) -> Result<Reply<T>, Failure> {
        let votes = answer.as_ref().map_or_else(BackendError::votes, |reply| &reply.votes);
        if !votes.is_empty() {
            let name = &entry.name;
            self.observe(|backend| LockEvent::Voted { backend, name, votes });
        }
        op.outcome(entry, answer)
    }

    pub(super) fn timeout_of(&self, op: &Op) -> Duration {
        let terms = self.default_terms.as_ref();
        op.timeout(terms.map_or(MAX_WATCH, |terms| terms.operation_timeout.min(MAX_WATCH)))
    }

    /// Polls an operation once. Returns its event if it is answered immediately, as it is by an in-memory store, or
    /// else the pending call.
    fn begin(self: &Arc<Self>, entry: &Arc<LockEntry>, op: Op) -> Result<Event, Call> {
        let mut work = Box::pin(self.clone().perform(entry.clone(), op.clone()));
        let mut polled = None;
        contained("a store", || polled = Some(work.as_mut().poll(&mut Context::from_waker(Waker::noop()))));
        if let Some(Poll::Pending) = polled {
            return Err(self.call_of(entry, op, work));
        }
        contained("a store", || drop(work));
        match polled {
            Some(Poll::Ready(event)) => Ok(event),
            _ => Ok(op.unknown()),
        }
    }

    pub(super) fn new_call(self: &Arc<Self>, entry: &Arc<LockEntry>, op: Op) -> Call {
        let work = self.clone().perform(entry.clone(), op.clone());
        self.call_of(entry, op, work)
    }

    fn call_of(
        self: &Arc<Self>,
        entry: &Arc<LockEntry>,
        op: Op,
        work: impl Future<Output = Event> + Send + 'static,
    ) -> Call {
        let (timeout, at) = (self.timeout_of(&op), entry.clone());
        self.call(vec![(entry.clone(), op)], timeout, async move { vec![(at, work.await)] })
    }

    /// Groups due renewals into calls with the same operation timeout, so that no renewal is given up early or late
    /// because of another.
    pub(super) fn renewal_calls(self: &Arc<Self>, due: Vec<(Arc<LockEntry>, Op)>) -> Vec<Call> {
        let mut by_timeout: BTreeMap<Duration, Vec<(Arc<LockEntry>, Op)>> = BTreeMap::new();
        for (entry, op) in due {
            by_timeout.entry(self.timeout_of(&op)).or_default().push((entry, op));
        }
        let mut calls = Vec::new();
        for (timeout, due) in by_timeout {
            for batch in due.chunks(MAX_RENEWALS).map(<[_]>::to_vec) {
                let (shared, asked) = (self.clone(), batch.clone());
                calls.push(self.call(batch, timeout, async move { shared.perform_renewals(asked).await }));
            }
        }
        calls
    }

    async fn perform(self: Arc<Self>, entry: Arc<LockEntry>, op: Op) -> Event {
        match op.request(self.process, &entry) {
            Some(Request::Acquire(request)) => {
                op.acquired(self.outcome(&op, &entry, self.backend.acquire(request).await))
            }
            Some(Request::Release(request)) => {
                op.released(self.outcome(&op, &entry, self.backend.release(request).await))
            }
            Some(Request::Renew(_)) => {
                match self.perform_renewals(vec![(entry.clone(), op.clone())]).await.pop() {
                    Some((_, event)) => event,
                    None => op.unknown(),
                }
            }
            None => self.perform_subscription(&entry, op).await,
        }
    }

    async fn perform_subscription(&self, entry: &LockEntry, op: Op) -> Event {
        let (Some(subscriptions), Some(subscriber)) = (&self.subscriptions, self.subscriber.get()) else {
            return op.unknown();
        };
        let answer = |done: Result<(), BackendError>| match done {
            Ok(()) => WatchAnswer::Acknowledged,
            Err(_) => WatchAnswer::Failed,
        };
        let name = entry.name.clone();
        match op {
            Op::Watch => Event::Watched(answer(subscriptions.subscribe(*subscriber, name).await)),
            _ => Event::Unwatched(answer(subscriptions.unsubscribe(*subscriber, name).await)),
        }
    }

    async fn perform_renewals(&self, due: Vec<(Arc<LockEntry>, Op)>) -> Answers {
        let mut asked = Vec::with_capacity(due.len());
        let mut requests = Vec::with_capacity(due.len());
        for (entry, op) in due {
            if let Some(Request::Renew(request)) = op.request(self.process, &entry) {
                requests.push(request);
                asked.push((entry, op));
            }
        }
        let mut answers = self.backend.renew(requests).await.into_iter();
        let answered = asked.into_iter().map(|(entry, op)| {
            let event = match answers.next() {
                Some(answer) => op.renewed(self.outcome(&op, &entry, answer)),
                None => op.unknown(),
            };
            (entry, event)
        });
        answered.collect()
    }
}
