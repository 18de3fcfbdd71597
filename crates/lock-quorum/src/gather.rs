//! Requests to several nodes: their replies, up to a deadline, and the decision of a majority.

use crate::{
    node::QuorumNode,
    round::{Ruling, Tally, Word},
    shared::{GRACE, STRAGGLER_TIMEOUT, Shared},
};
use futures_util::{Stream, stream::FuturesUnordered};
use lock_core::{
    __private::{has_timer, in_background},
    backend::{BackendError, Reply, VoteKind, Votes},
    clock::{Clock, Moment},
};
use std::{
    collections::VecDeque,
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::time::{Sleep, sleep};

type Coming<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Replies in flight. The first poll sends the requests to all nodes before any reply is handled.
pub(crate) struct Gather<T> {
    coming: FuturesUnordered<Coming<T>>,
    here: VecDeque<T>,
    timer: Timer,
}

impl<T> Gather<T> {
    pub(crate) fn new() -> Self {
        Self { coming: FuturesUnordered::new(), here: VecDeque::new(), timer: Timer::default() }
    }

    pub(crate) fn push(&self, answer: impl Future<Output = T> + Send + 'static) {
        self.coming.push(Box::pin(answer));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.here.is_empty() && self.coming.is_empty()
    }

    /// Returns the next reply, or `None` at `until` or if no reply is outstanding. Cancel safe: a reply that has
    /// arrived stays available for the next call.
    pub(crate) async fn next(&mut self, clock: &dyn Clock, until: Moment) -> Option<T> {
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

/// A node's answer to a request that was sent at this moment.
pub(crate) struct Sent<T> {
    pub(crate) node: usize,
    pub(crate) at: Moment,
    pub(crate) answer: T,
}

/// Sends a request to each node.
pub(crate) fn ask_all<T, F>(
    shared: &Shared,
    request: impl Fn(usize, Arc<dyn QuorumNode>) -> F,
) -> Gather<Sent<T>>
where
    F: Future<Output = T> + Send + 'static,
{
    let coming = Gather::new();
    for (node, member) in shared.nodes.iter().enumerate() {
        let (at, answer) = (shared.clock.now(), request(node, member.backend.clone()));
        coming.push(async move { Sent { node, at, answer: answer.await } });
    }
    coming
}

/// A yes-or-no question to the nodes, with their answers.
pub(crate) struct Question {
    tally: Tally,
    kinds: Vec<Option<VoteKind>>,
}

impl Question {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { tally: Tally::new(nodes), kinds: vec![None; nodes] }
    }

    /// Asks all nodes until no further answer can change the decision, or until [`GRACE`] after a majority can no
    /// longer say yes. Later replies are discarded.
    pub(crate) async fn ask<T, F>(
        shared: &Shared,
        request: impl Fn(Arc<dyn QuorumNode>) -> F,
        mut read: impl FnMut(Result<T, BackendError>) -> (Word, VoteKind),
    ) -> Self
    where
        F: Future<Output = Result<Reply<T>, BackendError>> + Send + 'static,
        T: Send + 'static,
    {
        let mut coming = ask_all(shared, |_, node| request(node));
        let mut question = Self::new(shared.nodes.len());
        let mut until = Moment::NEVER;
        while question.ruling().is_none() {
            let Some(Sent { node, at, answer }) = coming.next(&*shared.clock, until).await else { break };
            if let Ok(reply) = &answer {
                shared.learn(node, at, reply.now);
            }
            question.hear(node, read(answer.map(|reply| reply.outcome)));
            if question.is_lost() {
                until = until.min(shared.clock.now() + GRACE);
            }
        }
        let clock = shared.clock.clone();
        in_background(async move {
            let until = clock.now() + STRAGGLER_TIMEOUT;
            while coming.next(&*clock, until).await.is_some() {}
        });
        question
    }

    /// Records a node's answer.
    pub(crate) fn hear(&mut self, node: usize, (word, kind): (Word, VoteKind)) {
        self.kinds[node] = Some(kind);
        self.tally.add(word);
    }

    /// Returns this node's vote, if it has answered.
    pub(crate) fn kind(&self, node: usize) -> Option<&VoteKind> {
        self.kinds[node].as_ref()
    }

    pub(crate) fn ruling(&self) -> Option<Ruling> {
        self.tally.ruling()
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.tally.is_lost()
    }

    pub(crate) fn votes(&self, shared: &Shared) -> Votes {
        shared.votes(self.kinds.iter().cloned())
    }
}

/// A timer whose moment may change. The clock decides when it is due, since the runtime's timers may fire early or
/// late.
#[derive(Default)]
struct Timer(Option<(Moment, Pin<Box<Sleep>>)>);

/// Waits until this moment, or forever if the runtime has no timer.
pub(crate) async fn pause(clock: &dyn Clock, until: Moment) {
    let mut timer = Timer::default();
    poll_fn(|cx| timer.poll(cx, clock, until)).await;
}

impl Timer {
    fn poll(&mut self, cx: &mut Context<'_>, clock: &dyn Clock, until: Moment) -> Poll<()> {
        loop {
            let now = clock.now();
            if now >= until {
                return Poll::Ready(());
            }
            let (at, mut sleep) = match self.0.take().filter(|(at, _)| *at == until) {
                Some(timer) => timer,
                None if has_timer() => (until, Box::pin(sleep(until.since(now)))),
                None => return Poll::Pending,
            };
            if sleep.as_mut().poll(cx).is_pending() {
                self.0 = Some((at, sleep));
                return Poll::Pending;
            }
        }
    }
}
