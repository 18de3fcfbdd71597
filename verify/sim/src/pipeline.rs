//! The pipeline of a simulated process: operations submitted while a call is under way share the next one.

use crate::{
    backend::{acquired, released, renewed},
    message::{Answer, Request, failure},
    plan::Batching,
    world::World,
};
use lock_core::backend::{Applied, Operation, Pipeline};
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

/// Passes operations to a task, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct SimPipeline {
    world: Arc<World>,
    submitted: UnboundedSender<Operation>,
}

impl Pipeline for SimPipeline {
    fn submit(&self, operation: Operation) {
        if let Operation::Renew(request, _) = &operation {
            self.world.with(|state| state.oracle.renewal_submitted(state.now, request.lease));
        }
        // The task lives as long as this value.
        let _ = self.submitted.send(operation);
    }
}

/// The connection of one life of a process.
pub(crate) struct Connection {
    world: Arc<World>,
    link: usize,
    bug: Option<PlantedBug>,
    batching: Batching,
    submitted: UnboundedReceiver<Operation>,
    waiting: VecDeque<Operation>,
    calls: Vec<Call>,
}

/// A call under way.
struct Call {
    operations: Vec<Operation>,
    /// `None` once the call was lost. It is then never answered.
    coming: Option<Receiver<Answer>>,
    sent: Instant,
}

impl Connection {
    pub(crate) fn open(
        world: &Arc<World>,
        link: usize,
        bug: Option<PlantedBug>,
        batching: Batching,
    ) -> (SimPipeline, Self) {
        let (sender, submitted) = unbounded_channel();
        let (waiting, calls) = (VecDeque::new(), Vec::new());
        let connection = Self { world: world.clone(), link, bug, batching, submitted, waiting, calls };
        (SimPipeline { world: world.clone(), submitted: sender }, connection)
    }

    /// Carries operations until none can be submitted any more.
    pub(crate) async fn carry(mut self) {
        loop {
            while let Ok(operation) = self.submitted.try_recv() {
                self.waiting.push_back(operation);
            }
            self.send();
            let look = self.next_look();
            tokio::select! {
                biased;
                (operations, answer) = next_answer(&mut self.calls) => self.complete(operations, answer),
                operation = self.submitted.recv() => match operation {
                    Some(operation) => self.waiting.push_back(operation),
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
            let (operations, overdue): (Vec<_>, Vec<_>) =
                self.waiting.drain(..size).partition(Operation::is_wanted);
            overdue.into_iter().for_each(|operation| operation.fail(failure(Applied::No)));
            let mut requests: Vec<_> = operations.iter().filter_map(request).collect();
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
                Ok(answer) => self.complete(operations, answer),
                Err(coming) => {
                    self.calls.push(Call { operations, coming: Some(coming), sent: Instant::now() })
                }
            }
        }
    }

    fn complete(&self, operations: Vec<Operation>, answer: Answer) {
        let answers = match answer {
            Answer::Batch(answers) => answers,
            Answer::Failed(applied) => vec![Answer::Failed(applied); operations.len()],
            one => vec![one],
        };
        let now = self.world.with(|state| state.links[self.link].estimate()).unwrap_or_default();
        for (operation, answer) in operations.into_iter().zip(answers) {
            match operation {
                Operation::Acquire(_, completion) => completion.complete(acquired(answer)),
                Operation::Renew(_, completion) => {
                    let answer = renewed(1, answer).remove(0);
                    completion.complete(PlantedBug::renewed(self.bug, now, answer));
                }
                Operation::Release(_, completion) => completion.complete(released(self.bug, answer)),
                other => drop(other),
            }
        }
    }
}

/// Returns the request for an operation, or `None` if it is not supported here.
fn request(operation: &Operation) -> Option<Request> {
    match operation {
        Operation::Acquire(request, _) => Some(Request::Acquire(request.clone())),
        Operation::Renew(request, _) => Some(Request::Renew(vec![request.clone()])),
        Operation::Release(request, _) => Some(Request::Release(request.clone())),
        _ => None,
    }
}

/// Returns the next answer to one of the calls. Lost calls stay.
async fn next_answer(calls: &mut Vec<Call>) -> (Vec<Operation>, Answer) {
    poll_fn(|cx| {
        for number in 0..calls.len() {
            let Some(coming) = &mut calls[number].coming else { continue };
            match Pin::new(coming).poll(cx) {
                Poll::Ready(Ok(answer)) => return Poll::Ready((calls.remove(number).operations, answer)),
                Poll::Ready(Err(_)) => calls[number].coming = None,
                Poll::Pending => {}
            }
        }
        Poll::Pending
    })
    .await
}
