//! Requests to one group's run ledger. Each has a timeout, and some are repeated until the outcome
//! is certain.

use crate::{running::RunHold, schedule::times::whole_millis};
use futures_util::FutureExt;
use lock_core::{
    __private::Backoff,
    LockName,
    backend::{Applied, BackendError, BackendErrorKind, ProcessId, Reply},
    clock::{Clock, Moment, UtcTime},
};
use lock_ledger::{
    AddReply, AddRequest, Attempt, ClaimReply, ClaimRequest, CommandReply, EndReply, EndRequest,
    FleetControls, GroupName, GroupSummary, HeartbeatReply, HeartbeatRequest, InstanceDetail, Instances,
    InstancesFrom, JobCommand, JobDescription, JobId, LiveNode, MAX_INSTANCES_READ, OpenRun, RegisteredJob,
    Registration, Removal, RemoveReply, RenewRun, RunLedger, RunRenewal,
};
use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

/// The pauses between unanswered requests.
const WAITS: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));

/// The pause before a task is repeated after a failed request to the store.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// A revision that no group has, which makes the ledger return all controls.
pub(crate) const NO_REVISION: u64 = u64::MAX;

pub(crate) type Answer<T> = Result<T, BackendError>;

/// The result of a claim.
pub(crate) struct ClaimResult {
    pub(crate) answer: Answer<Reply<ClaimReply>>,
    /// The moment before the successful request.
    pub(crate) sent: Moment,
    /// Set if a request with this claim id got no reply and may still be applied.
    pub(crate) in_doubt: bool,
}

/// The ledger of one group.
#[derive(Debug, Clone)]
pub(crate) struct LedgerClient {
    ledger: Arc<dyn RunLedger>,
    clock: Arc<dyn Clock>,
    group: GroupName,
    timeout: Duration,
}

impl LedgerClient {
    pub(crate) fn new(
        ledger: Arc<dyn RunLedger>,
        clock: Arc<dyn Clock>,
        group: GroupName,
        timeout: Duration,
    ) -> Self {
        Self { ledger, clock, group, timeout }
    }

    pub(crate) fn group(&self) -> &GroupName {
        &self.group
    }

    pub(crate) fn job(&self, name: &LockName) -> JobId {
        JobId { group: self.group.clone(), name: name.clone() }
    }

    /// Returns the server's time if it is known, and otherwise this node's, in whole milliseconds
    /// because a series of skips may end at this time. It only determines when requests are sent.
    pub(crate) fn now(&self) -> UtcTime {
        whole_millis(self.server_now().unwrap_or_else(|| self.clock.wall()))
    }

    /// Returns the current moment on the clock that measures leases.
    pub(crate) fn moment(&self) -> Moment {
        self.clock.now()
    }

    /// Creates the hold of a run whose claim was granted by the request sent at this moment.
    pub(crate) fn hold(&self, sent: Moment, lease: Duration) -> RunHold {
        RunHold::new(self.clock.clone(), sent, lease)
    }

    /// Returns this node's wall clock minus the server's, in seconds.
    pub(crate) fn clock_offset(&self) -> Option<f64> {
        let server = self.server_now()?.as_micros();
        let wall = self.clock.wall().as_micros();
        Some(wall.wrapping_sub(server).cast_signed() as f64 / 1e6)
    }

    /// Returns the server's time, or `None` if the ledger does not know it or panics.
    fn server_now(&self) -> Option<UtcTime> {
        catch_unwind(AssertUnwindSafe(|| self.ledger.server_now(&self.group))).unwrap_or(None)
    }

    pub(crate) async fn register(&self, jobs: Vec<Registration>) -> Answer<Vec<RegisteredJob>> {
        let asked = jobs.len();
        one_each(asked, self.request(self.ledger.register(self.group.clone(), jobs)).await?)
    }

    pub(crate) async fn watermarks(&self, jobs: Vec<Registration>) -> Answer<Vec<Option<UtcTime>>> {
        let mut watermarks = Vec::with_capacity(jobs.len());
        for part in jobs.chunks(MAX_INSTANCES_READ) {
            let read = self.request(self.ledger.watermarks(self.group.clone(), part.to_vec())).await?;
            watermarks.extend(one_each(part.len(), read)?);
        }
        Ok(watermarks)
    }

    pub(crate) async fn renew(&self, runs: Vec<RenewRun>) -> Answer<Vec<RunRenewal>> {
        let asked = runs.len();
        one_each(asked, self.request(self.ledger.renew(self.group.clone(), runs)).await?)
    }

    pub(crate) async fn open_runs(&self) -> Answer<Vec<OpenRun>> {
        Ok(self.request(self.ledger.open_runs(self.group.clone())).await?.outcome)
    }

    pub(crate) async fn history(&self, job: &LockName, max: usize) -> Answer<Vec<Attempt>> {
        Ok(self.request(self.ledger.history(self.job(job), max)).await?.outcome)
    }

    pub(crate) async fn command(&self, job: &LockName, command: JobCommand) -> Answer<CommandReply> {
        Ok(self.request(self.ledger.command(self.job(job), command)).await?.outcome)
    }

    /// Reads the controls, unless their revision is `known`.
    pub(crate) async fn controls(&self, known: u64) -> Answer<FleetControls> {
        Ok(self.request(self.ledger.controls(self.group.clone(), known)).await?.outcome)
    }

    pub(crate) async fn describe(&self, jobs: Vec<JobDescription>) -> Answer<()> {
        self.request(self.ledger.describe(self.group.clone(), jobs)).await.map(drop)
    }

    pub(crate) async fn summary(&self) -> Answer<Reply<GroupSummary>> {
        self.request(self.ledger.summary(self.group.clone())).await
    }

    pub(crate) async fn add(&self, request: AddRequest) -> Answer<AddReply> {
        Ok(self.request(self.ledger.add(request)).await?.outcome)
    }

    pub(crate) async fn remove(&self, job: &LockName, removal: Removal) -> Answer<RemoveReply> {
        Ok(self.request(self.ledger.remove(self.job(job), removal)).await?.outcome)
    }

    /// Reads one instance with its payload.
    pub(crate) async fn instance(&self, job: &LockName) -> Answer<Option<InstanceDetail>> {
        Ok(self.request(self.ledger.instance(self.job(job))).await?.outcome)
    }

    /// Reads the instances that changed after the revision `known`, or all pages of all instances.
    pub(crate) async fn instances(&self, known: u64) -> Answer<Instances> {
        let read = async |from| self.request(self.ledger.instances(self.group.clone(), from)).await;
        let mut reply = read(InstancesFrom::Revision(known)).await?.outcome;
        let Instances::All { instances, next, .. } = &mut reply else { return Ok(reply) };
        while let Some(after) = next.take() {
            if let Instances::All { instances: page, next: more, .. } =
                read(InstancesFrom::Name(after.clone())).await?.outcome
            {
                instances.extend(page);
                *next = more.filter(|more| *more > after);
            }
        }
        // The revision of the first page, so that the next read returns what has changed since.
        Ok(reply)
    }

    /// Reads the controls and the live nodes, without becoming one.
    pub(crate) async fn observe(&self) -> Answer<HeartbeatReply> {
        let (id, name) = (*ProcessId::random().as_uuid(), String::new());
        let nobody = LiveNode { id, name, jobs: 0, room: 0, kinds: Vec::new(), leading: false };
        Ok(self.heartbeat(nobody, Duration::ZERO, NO_REVISION, Vec::new()).await?.outcome)
    }

    /// Reports that a node is alive, and reads the state of the group.
    pub(crate) async fn heartbeat(
        &self,
        node: LiveNode,
        lease: Duration,
        known: u64,
        watermarks: Vec<Registration>,
    ) -> Answer<Reply<HeartbeatReply>> {
        let (asked, group) = (watermarks.len(), self.group.clone());
        let request = HeartbeatRequest { group, node, lease, known, watermarks };
        let reply = self.request(self.ledger.heartbeat(request)).await?;
        complete(asked, reply.outcome.watermarks.len())?;
        Ok(reply)
    }

    /// Sends one request, with a timeout.
    async fn request<T>(&self, call: impl Future<Output = Answer<Reply<T>>>) -> Answer<Reply<T>> {
        // If a panic of the ledger ended the task, the scheduler would wait for the reply forever.
        let call = AssertUnwindSafe(call).catch_unwind();
        let message = match tokio::time::timeout(self.timeout, call).await {
            Ok(Ok(answer)) => return answer,
            Ok(Err(_)) => "the run ledger panicked".to_owned(),
            Err(_) => format!("the run ledger did not respond within {:?}", self.timeout),
        };
        Err(BackendError::new(BackendErrorKind::Timeout, Applied::Unknown, message))
    }

    /// Sends a claim with the same id until it is known whether the run was claimed, or `give_up`
    /// completes. An error only counts as a reply if no request can have been applied.
    pub(crate) async fn claim(
        &self,
        request: &ClaimRequest,
        give_up: impl Future<Output = ()>,
    ) -> ClaimResult {
        let mut in_doubt = false;
        let until_certain = async {
            let mut backoff = WAITS;
            loop {
                let sent = self.moment();
                match self.request(self.ledger.claim(request.clone())).await {
                    Ok(reply) => return (Ok(reply), sent),
                    Err(error) => {
                        in_doubt |= error.applied() != Applied::No;
                        if !in_doubt {
                            return (Err(error), sent);
                        }
                    }
                }
                tokio::time::sleep(backoff.next_wait()).await;
            }
        };
        let answer = tokio::select! {
            biased;
            answer = until_certain => Some(answer),
            () = give_up => None,
        };
        if let Some((answer, sent)) = answer {
            return ClaimResult { answer, sent, in_doubt };
        }
        let message = "it is unknown whether the run was claimed";
        let error = BackendError::new(BackendErrorKind::Timeout, Applied::Unknown, message);
        ClaimResult { answer: Err(error), sent: self.moment(), in_doubt: true }
    }

    /// Records an end. Repeats the request for at most the lease of the run; after that the run is an orphan anyway.
    /// Returns `None` if the end was not recorded.
    pub(crate) async fn end(&self, request: EndRequest, lease: Duration) -> Option<EndReply> {
        let until_recorded = async {
            let mut backoff = WAITS;
            loop {
                match self.request(self.ledger.end(request.clone())).await {
                    Ok(reply) => return Some(reply.outcome),
                    Err(error) if !error.is_retryable() => {
                        tracing::error!(cron.job = %request.job.name, %error, "failed to record the end of a run");
                        return None;
                    }
                    Err(_) => {}
                }
                tokio::time::sleep(backoff.next_wait()).await;
            }
        };
        tokio::time::timeout(lease, until_recorded).await.unwrap_or(None)
    }
}

/// Returns an error unless there is exactly one reply per item of the request.
fn one_each<T>(asked: usize, reply: Reply<Vec<T>>) -> Answer<Vec<T>> {
    complete(asked, reply.outcome.len())?;
    Ok(reply.outcome)
}

fn complete(asked: usize, answers: usize) -> Answer<()> {
    if answers == asked {
        return Ok(());
    }
    let about = format!(
        "the run ledger returned {answers} replies to a request with {asked} items: report this to the ledger's author"
    );
    Err(BackendError::new(BackendErrorKind::Protocol, Applied::Unknown, about))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lock_core::clock::TestClock;
    use lock_ledger::MemoryLedger;

    #[tokio::test(start_paused = true)]
    async fn panicking_ledger_counts_as_unanswered() {
        let (ledger, clock) = (Arc::new(MemoryLedger::new()), Arc::new(TestClock::new()));
        let client = LedgerClient::new(ledger, clock, GroupName::new("g").unwrap(), Duration::from_secs(1));
        let answer = client.request::<()>(async { panic!("out of order") }).await;
        assert_eq!(answer.unwrap_err().applied(), Applied::Unknown);
    }

    #[test]
    fn wrong_number_of_answers_is_refused() {
        let reply = |answers: Vec<u8>| Reply::new(UtcTime::from_micros(0), answers);
        assert_eq!(one_each(2, reply(vec![1, 2])).expect("one reply per item"), [1, 2]);
        for answers in [vec![], vec![1], vec![1, 2, 3]] {
            let error = one_each(2, reply(answers)).expect_err("wrong number of replies");
            assert_eq!((error.kind(), error.applied()), (BackendErrorKind::Protocol, Applied::Unknown));
        }
    }
}
