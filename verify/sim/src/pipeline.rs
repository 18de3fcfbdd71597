//! The connection of a simulated process: operations submitted while a call is under way share the next one.

use crate::{
    backend::{SimBackend, acquired, released, renewed},
    message::{Answer, Request, failure},
    plan::Batching,
    world::World,
};
use async_trait::async_trait;
use lock_core::{
    LockName,
    backend::{
        Applied, AsyncBackend as _, Backend, BackendError, Capabilities, ForceReleaseRequest, ForceReleased,
        Inspected, Operation, Outcome, Reply, Submission,
    },
    clock::UtcTime,
};
use lock_testkit::planted::PlantedBug;
use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};
use tokio::{
    sync::{
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        oneshot::Receiver,
    },
    time::{Instant, sleep_until},
};

/// The time for which a call delays what is submitted after it.
const HOLDS_UP: Duration = Duration::from_millis(5);

/// A store that passes operations to a task, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Batches {
    backend: SimBackend,
    submitted: UnboundedSender<Submission>,
}

#[async_trait]
impl Backend for Batches {
    fn capabilities(&self) -> Capabilities {
        self.backend.capabilities().with_wakes_in_task()
    }

    fn server_now(&self, name: &LockName) -> Option<UtcTime> {
        self.backend.server_now(name)
    }

    fn submit(&self, submission: Submission) {
        if let Operation::Renew(request) = submission.operation() {
            self.backend.world.with(|state| state.oracle.renewal_submitted(state.now, request.lease));
        }
        // The task lives as long as this value.
        let _ = self.submitted.send(submission);
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        self.backend.inspect(name).await
    }

    async fn force_release(
        &self,
        request: ForceReleaseRequest,
    ) -> Result<Reply<ForceReleased>, BackendError> {
        self.backend.force_release(request).await
    }
}

/// The connection of one life of a process.
pub(crate) struct Connection {
    world: Arc<World>,
    link: usize,
    bug: Option<PlantedBug>,
    batching: Batching,
    submitted: UnboundedReceiver<Submission>,
    waiting: VecDeque<Submission>,
    calls: Vec<Call>,
}

/// A call under way.
struct Call {
    submissions: Vec<Submission>,
    /// `None` once the call was lost. It is then never answered.
    coming: Option<Receiver<Answer>>,
    sent: Instant,
}

impl Connection {
    pub(crate) fn open(backend: SimBackend, batching: Batching) -> (Batches, Self) {
        let (sender, submitted) = unbounded_channel();
        let (waiting, calls) = (VecDeque::new(), Vec::new());
        let SimBackend { ref world, link, bug } = backend;
        let connection = Self { world: world.clone(), link, bug, batching, submitted, waiting, calls };
        (Batches { backend, submitted: sender }, connection)
    }

    /// Carries operations until none can be submitted any more.
    pub(crate) async fn carry(mut self) {
        loop {
            while let Ok(submission) = self.submitted.try_recv() {
                self.waiting.push_back(submission);
            }
            self.send();
            let look = self.next_look();
            tokio::select! {
                biased;
                (submissions, answer) = next_answer(&mut self.calls) => self.complete(submissions, answer),
                submission = self.submitted.recv() => match submission {
                    Some(submission) => self.waiting.push_back(submission),
                    None => return,
                },
                () = sleep_until(look.unwrap_or_else(Instant::now)), if look.is_some() => {}
            }
        }
    }

    fn may_send(&self) -> bool {
        match self.under_way().count() {
            0 => !self.waiting.is_empty(),
            calls => calls < self.batching.calls && self.waiting.len() >= self.batching.gathered,
        }
    }

    /// Returns the calls that delay operations submitted after them. A late or lost call only does so for a moment: its
    /// operations are answered late or never.
    fn under_way(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|call| call.coming.is_some() && call.sent.elapsed() < HOLDS_UP)
    }

    /// Returns the time at which the first of them stops delaying.
    fn next_look(&self) -> Option<Instant> {
        let first = self.under_way().map(|call| call.sent).min().filter(|_| !self.waiting.is_empty());
        first.map(|sent| sent + HOLDS_UP)
    }

    fn send(&mut self) {
        while self.may_send() {
            let size = self.waiting.len().min(self.batching.most);
            let (submissions, overdue): (Vec<_>, Vec<_>) =
                self.waiting.drain(..size).partition(Submission::is_wanted);
            overdue.into_iter().for_each(|submission| submission.complete(Err(failure(Applied::No))));
            let mut requests: Vec<_> =
                submissions.iter().map(|submission| request(submission.operation())).collect();
            let request = match requests.len() {
                0 => continue,
                1 => requests.remove(0),
                _ => Request::Batch(requests),
            };
            let sent = self.world.with(|state| {
                if let Request::Batch(_) = request {
                    state.count("batch");
                }
                state.send(self.link, request)
            });
            match sent {
                Ok(answer) => self.complete(submissions, answer),
                Err(coming) => {
                    self.calls.push(Call { submissions, coming: Some(coming), sent: Instant::now() })
                }
            }
        }
    }

    fn complete(&self, submissions: Vec<Submission>, answer: Answer) {
        let answers = match answer {
            Answer::Batch(answers) => answers,
            Answer::Failed(applied) => vec![Answer::Failed(applied); submissions.len()],
            one => vec![one],
        };
        let now = self.world.with(|state| state.links[self.link].estimate()).unwrap_or_default();
        for (submission, answer) in submissions.into_iter().zip(answers) {
            let reply = match submission.operation() {
                Operation::Acquire(_) => acquired(answer).map(|reply| reply.map(Outcome::from)),
                Operation::Renew(_) => {
                    let answer = renewed(1, answer).remove(0);
                    PlantedBug::renewed(self.bug, now, answer).map(|reply| reply.map(Outcome::from))
                }
                Operation::Release(_) => released(self.bug, answer).map(|reply| reply.map(Outcome::from)),
            };
            submission.complete(reply);
        }
    }
}

/// Returns the request for an operation.
fn request(operation: &Operation) -> Request {
    match operation {
        Operation::Acquire(request) => Request::Acquire(request.clone()),
        Operation::Renew(request) => Request::Renew(vec![request.clone()]),
        Operation::Release(request) => Request::Release(request.clone()),
    }
}

/// Returns the next answer to one of the calls. Lost calls stay.
async fn next_answer(calls: &mut Vec<Call>) -> (Vec<Submission>, Answer) {
    poll_fn(|cx| {
        for number in 0..calls.len() {
            let Some(coming) = &mut calls[number].coming else { continue };
            match Pin::new(coming).poll(cx) {
                Poll::Ready(Ok(answer)) => return Poll::Ready((calls.remove(number).submissions, answer)),
                Poll::Ready(Err(_)) => calls[number].coming = None,
                Poll::Pending => {}
            }
        }
        Poll::Pending
    })
    .await
}
