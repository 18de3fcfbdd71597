//! Claims: of runs that are due, and of runs that other nodes have left.

use crate::{
    hold::RunHold,
    job::Job,
    node::{Ending, Node},
    observer::CronEvent,
    options::{OnOrphan, Overlap},
    plan::{ClaimOutcome, Due},
    running::Held,
    time::UtcTime,
};
use lock_core::{FencingToken, LockName};
use lock_ledger::{
    AfterAttempt, CatchUp, ClaimId, ClaimReply, ClaimRequest, EndReply, EndRequest, OpenRun, OverlapRule,
    RetryOf, RunId, RunOutcome, RunState,
};
use std::time::Duration;

/// The time that a record may take after the grace of a shutdown. With it and the default graces, a shutdown takes less than
/// 30 s also while the store is down; the next leader finds what was not recorded.
const LAST_RECORD: Duration = Duration::from_secs(3);

/// A run that is this node's to start.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) run: RunId,
    pub(crate) claim: ClaimId,
    pub(crate) token: FencingToken,
    pub(crate) attempt: u32,
    /// The number of attempts before it that failed.
    pub(crate) failures: u32,
    pub(crate) catch_up: CatchUp,
    pub(crate) started: UtcTime,
    /// The lease of the claim; none in a job of each node.
    pub(crate) hold: Option<RunHold>,
}

impl Granted {
    pub(crate) fn held(&self) -> Option<Held> {
        self.hold.clone().map(|hold| Held { claim: self.claim, hold })
    }
}

/// The rule of the ledger for a policy.
pub(crate) fn rule(overlap: Overlap) -> OverlapRule {
    match overlap {
        Overlap::Skip => OverlapRule::Skip,
        Overlap::QueueOne => OverlapRule::Queue,
        Overlap::CancelPrevious => OverlapRule::Replace,
        Overlap::Allow { max } => OverlapRule::Allow { max },
    }
}

/// The request for another attempt after this one.
pub(crate) fn again(node: &Node, job: &Job, run: RunId, catch_up: CatchUp, claim: ClaimId) -> ClaimRequest {
    let orphanings = match job.terms.on_orphan {
        OnOrphan::Skip => 0,
        OnOrphan::Retry { max } => max,
    };
    ClaimRequest {
        job: node.store.job(&job.name),
        run,
        claim: ClaimId::random(),
        retry_of: Some(RetryOf { claim, failures: job.terms.retries.max, orphanings }),
        skip: None,
        schedule: 0,
        revision: 0,
        overlap: rule(job.terms.overlap),
        lease: node.terms.lease,
        node: node.name.clone(),
        catch_up,
        history: node.terms.history,
    }
}

/// Claims a run that is due, or has it skipped.
pub(crate) async fn start(node: &Node, due: &mut Due) -> (ClaimOutcome, Option<Granted>) {
    // A request that was not answered may still be carried out: asked with its id, the run is ours then. With another, it would
    // be decided, and no node would run it.
    let before = due.in_doubt.take();
    let claim = before.unwrap_or_else(ClaimId::random);
    let request = ClaimRequest {
        job: node.store.job(&due.job),
        run: due.run,
        claim,
        retry_of: None,
        skip: due.skip.clone(),
        schedule: due.schedule,
        revision: due.revision,
        overlap: rule(due.overlap),
        lease: node.terms.lease,
        node: node.name.clone(),
        catch_up: due.catch_up,
        history: node.terms.history,
    };
    let given_up = async {
        tokio::select! {
            () = tokio::time::sleep(node.terms.lease) => {}
            () = node.ends(Ending::GivingUp) => {}
        }
    };
    let asked = node.store.claim(&request, given_up).await;
    due.in_doubt = (before.is_some() || asked.in_doubt).then_some(claim);
    match asked.answer {
        Ok(reply) => {
            let hold = node.store.hold(asked.sent, node.terms.lease);
            let granted = granted(&request, &reply.outcome, UtcTime::from(reply.now), hold);
            (ClaimOutcome::Answered(reply.outcome), granted)
        }
        Err(error) => {
            node.store_failed(&error);
            (ClaimOutcome::Failed, None)
        }
    }
}

/// Goes on with a run that no node has any more, or records that it was abandoned.
pub(crate) async fn take_over(node: &Node, job: &Job, left: &OpenRun) -> Option<Granted> {
    let request = again(node, job, left.run, CatchUp::Yes, left.claim);
    let asked = node.store.claim(&request, node.ends(Ending::GivingUp)).await;
    let reply = match asked.answer {
        Ok(reply) => reply,
        Err(error) => {
            node.store_failed(&error);
            return None;
        }
    };
    let orphaned = left.state == RunState::Orphaned;
    match reply.outcome {
        // The attempts that it may have are used up.
        ClaimReply::Gone => {
            let detail = "its node died, or lost it".to_owned();
            let ended =
                end(node, job, left.run, left.claim, RunOutcome::Abandoned, detail, AfterAttempt::Finish)
                    .await;
            if orphaned && ended == Some(EndReply::Recorded) {
                node.observers.notify(|group| CronEvent::Orphaned { group, job: &job.name, retried: false });
            }
        }
        ClaimReply::Claimed { .. } if orphaned => {
            node.observers.notify(|group| CronEvent::Orphaned { group, job: &job.name, retried: true });
        }
        _ => {}
    }
    granted(&request, &reply.outcome, UtcTime::from(reply.now), node.store.hold(asked.sent, node.terms.lease))
}

/// The run that this answer grants. Its hold may be over already; then its body does not begin.
pub(crate) fn granted(
    r: &ClaimRequest,
    answer: &ClaimReply,
    started: UtcTime,
    hold: RunHold,
) -> Option<Granted> {
    let ClaimReply::Claimed { token, attempt, failures } = *answer else { return None };
    let (run, claim, catch_up, hold) = (r.run, r.claim, r.catch_up, Some(hold));
    Some(Granted { run, claim, token, attempt, failures, catch_up, started, hold })
}

/// Records an end; `None` if the store did not answer for as long as the lease may last, or a shutdown can wait.
pub(crate) async fn end(
    node: &Node,
    job: &Job,
    run: RunId,
    claim: ClaimId,
    outcome: RunOutcome,
    detail: String,
    then: AfterAttempt,
) -> Option<EndReply> {
    let job: &LockName = &job.name;
    let history = node.terms.history;
    let request = EndRequest { job: node.store.job(job), run, claim, outcome, detail, then, history };
    let given_up = async {
        node.ends(Ending::GivingUp).await;
        tokio::time::sleep(LAST_RECORD).await;
    };
    tokio::select! {
        biased;
        ended = node.store.end(request, node.terms.lease) => ended,
        () = given_up => None,
    }
}
