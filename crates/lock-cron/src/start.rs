//! Starting a run: its lock first, the claim second, a look at the deadline third. In another order, a pause between claim and lock
//! would look like an orphan, and let a second body in.

use crate::{
    job::Job,
    node::Node,
    options::Overlap,
    plan::{Answer, Due, utc},
    schedule::UtcTime,
};
use lock_core::{
    FencingToken, LockGuard, LockName,
    backend::ledger::{
        Again, CatchUp, ClaimId, ClaimRequest, Claimed, EndRequest, KeepRun, KeptRun, Orders, OverlapRule,
        RunId, RunOutcome, Then, Trigger,
    },
};
use std::time::Duration;

/// A leader of another registry, in a rolling deployment, may be about to decide the same instant.
const ANOTHER_LEADER: Duration = Duration::from_millis(300);

/// A run that is ours to start.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) run: RunId,
    /// Of the run, while its body is under way; none in a job of each node.
    pub(crate) guard: Option<LockGuard>,
    pub(crate) claim: ClaimId,
    pub(crate) token: FencingToken,
    pub(crate) attempt: u32,
    pub(crate) catch_up: CatchUp,
    pub(crate) missed: u32,
    pub(crate) started: UtcTime,
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

/// Takes the lock of a run that is due, and claims it.
pub(crate) async fn start(node: &Node, job: &Job, due: &mut Due) -> (Answer, Option<Granted>) {
    match take_and_claim(node, job, due, None).await {
        (Answer::Ledger(Claimed::Fenced { epoch }), _) => {
            tokio::time::sleep(ANOTHER_LEADER).await;
            (decided_or(node, due, Answer::Ledger(Claimed::Fenced { epoch })).await, None)
        }
        (Answer::Taken, _) => (decided_or(node, due, Answer::Taken).await, None),
        other => other,
    }
}

/// Takes the lock of a run that was orphaned, and either claims it again or records that it was abandoned.
pub(crate) async fn adopt(node: &Node, job: &Job, due: &mut Due, again: Again) -> Option<Granted> {
    take_and_claim(node, job, due, Some(again)).await.1
}

/// Takes the lock of an orphan and records that nobody will run it.
pub(crate) async fn bury(node: &Node, due: &Due, claim: ClaimId) -> bool {
    let Ok(Some(guard)) = run_lock(node, due).await else { return false };
    let detail = "its node died, or lost it".to_owned();
    let buried = end(node, due.job.clone(), due.run, claim, RunOutcome::Abandoned, detail, Then::Over).await;
    let _ = guard.release().await;
    buried
}

async fn run_lock(node: &Node, due: &Due) -> Result<Option<LockGuard>, lock_core::LockError> {
    let name = format!("run:{{{}}}:{}:{}", node.store.group, due.job, due.run);
    let name = LockName::reserved(&name).expect("group and job were checked to fit");
    node.locks.named(name)?.with_options(node.run_lock)?.try_acquire().await
}

async fn take_and_claim(
    node: &Node,
    job: &Job,
    due: &mut Due,
    again: Option<Again>,
) -> (Answer, Option<Granted>) {
    let guard = match run_lock(node, due).await {
        Ok(Some(guard)) => guard,
        Ok(None) => return (Answer::Taken, None),
        Err(error) => {
            node.store_failed(&error);
            return (Answer::Failed, None);
        }
    };
    // A request that was not answered may still be carried out: asked with its id, the run is ours then. With another, it would
    // be decided, and nobody would run it.
    let before = due.in_doubt.take();
    let claim = before.unwrap_or_else(ClaimId::random);
    let request = ClaimRequest {
        job: node.store.job(&due.job),
        run: due.run,
        claim,
        again,
        epoch: due.epoch,
        revision: due.revision,
        tolerance: Duration::ZERO,
        overlap: rule(due.overlap),
        lease: node.run_lease,
        node: node.name.clone(),
        catch_up: due.catch_up,
        missed: due.missed,
    };
    let lost = guard.lost();
    let asked = node
        .store
        .claim(&request, async move {
            tokio::select! {
                _ = lost => {}
                () = node.gives_up() => {}
            }
        })
        .await;
    due.in_doubt = (before.is_some() || asked.in_doubt).then_some(claim);
    let reply = match asked.answer {
        Ok(reply) => reply,
        Err(error) => {
            node.store_failed(&error);
            return (Answer::Failed, None);
        }
    };
    let answer = Answer::Ledger(reply.outcome.clone());
    let Claimed::Claimed { token, attempt } = reply.outcome else {
        let _ = guard.release().await;
        return (answer, None);
    };
    if due.in_doubt.is_some()
        && let Some(answer) = not_ours_any_more(node, due, claim).await
    {
        let _ = guard.release().await;
        return (answer, None);
    }
    if !guard.is_held() {
        tracing::warn!(cron.job = %due.job, "a run's lease ended before its body began");
        if attempt >= job.terms.attempts_of_orphan() {
            let detail = "its lease ended before it began".to_owned();
            end(node, due.job.clone(), due.run, claim, RunOutcome::Abandoned, detail, Then::Over).await;
        }
        return (answer, None);
    }
    let (started, guard) = (utc(reply.now), Some(guard));
    let (run, catch_up, missed) = (due.run, due.catch_up, due.missed);
    (answer, Some(Granted { run, guard, claim, token, attempt, catch_up, missed, started }))
}

/// A claim that was granted a while ago may have been taken for an orphan since: it is told again that it was granted, and is
/// over all the same.
async fn not_ours_any_more(node: &Node, due: &Due, claim: ClaimId) -> Option<Answer> {
    let item = KeepRun { job: due.job.clone(), run: due.run, claim, lease: node.run_lease };
    match node.store.ask(node.store.ledger().keep(node.store.group.clone(), vec![item])).await {
        Ok(reply) if reply.outcome[0] == KeptRun::Gone => Some(Answer::Ledger(Claimed::Duplicate)),
        Ok(_) => None,
        Err(error) => {
            node.store_failed(&error);
            Some(Answer::Failed)
        }
    }
}

/// The answer, unless the run was decided meanwhile: its instant, or its trigger, which does not wait any more then.
async fn decided_or(node: &Node, due: &Due, answer: Answer) -> Answer {
    let Some(at) = due.run.scheduled() else {
        let waits = |trigger: &Trigger| RunId::Triggered(trigger.id) == due.run;
        let asked = node.store.ledger().orders(node.store.group.clone(), u64::MAX);
        return match node.store.ask(asked).await.map(|reply| reply.outcome) {
            Ok(Orders::Changed { triggers, .. }) if !triggers.iter().any(waits) => {
                Answer::Ledger(Claimed::Duplicate)
            }
            _ => answer,
        };
    };
    let asked = node.store.ledger().register(node.store.group.clone(), vec![due.job.clone()]);
    match node.store.ask(asked).await {
        Ok(reply) if reply.outcome[0].watermark >= at => Answer::Ledger(Claimed::Superseded),
        _ => answer,
    }
}

/// Records an end, and says whether it is recorded.
pub(crate) async fn end(
    node: &Node,
    job: LockName,
    run: RunId,
    claim: ClaimId,
    outcome: RunOutcome,
    detail: String,
    then: Then,
) -> bool {
    let request = EndRequest { job: node.store.job(&job), run, claim, outcome, detail, then };
    node.store.end(request, node.run_lease).await.is_some()
}
