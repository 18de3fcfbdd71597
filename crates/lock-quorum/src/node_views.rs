//! Inspections and forced releases, which a majority decides.

use crate::{
    gather::Gather,
    round::majority,
    shared::{GRACE, STRAGGLER_TIMEOUT, Shared, unknown_reply},
    tally::{Ruling, Tally, Word},
};
use lock_core::{
    __private::in_background,
    LockName,
    backend::{
        Applied, BackendError, ForceReleaseRequest, ForceReleased, Inspected, Reply, StoredHold, VoteKind,
    },
    clock::Moment,
};
use std::sync::Arc;

/// Returns the hold that a majority of the nodes has stored, if any.
pub(super) async fn inspect(shared: &Arc<Shared>, name: LockName) -> Result<Reply<Inspected>, BackendError> {
    let mut coming = Gather::new();
    for (node, member) in shared.nodes.iter().enumerate() {
        let (backend, name, at) = (member.backend.clone(), name.clone(), shared.clock.now());
        coming.push(async move { (node, at, backend.inspect(name).await) });
    }
    let mut views = Views { kinds: vec![None; shared.nodes.len()], holds: Vec::new() };
    let mut until = Moment::NEVER;
    while !views.is_decided() {
        let Some((node, at, answer)) = coming.next(&*shared.clock, until).await else { break };
        if let Ok(reply) = &answer {
            shared.learn(node, at, reply.now);
        }
        views.hear(node, answer.map(|reply| reply.outcome));
        if views.answered() >= shared.majority() {
            until = until.min(shared.clock.now() + GRACE);
        }
    }
    let votes = shared.votes(views.kinds.iter().cloned());
    match views.answered() >= shared.majority() {
        true => Ok(shared.reply(views.outcome(), votes)),
        false => Err(shared.no_majority("answered", Applied::No, votes)),
    }
}

/// The replies of the nodes to an inspection.
struct Views {
    kinds: Vec<Option<VoteKind>>,
    holds: Vec<StoredHold>,
}

impl Views {
    fn hear(&mut self, node: usize, answer: Result<Inspected, BackendError>) {
        self.kinds[node] = Some(match answer {
            Ok(Inspected::Free) => VoteKind::Free,
            Ok(Inspected::Held(hold)) => {
                let lease = hold.lease.clone();
                self.holds.push(hold);
                VoteKind::Held { lease }
            }
            Ok(_) => unknown_reply(),
            Err(error) => VoteKind::Failed { error: error.to_string() },
        });
    }

    fn answered(&self) -> usize {
        let is_answer = |kind: &&VoteKind| matches!(kind, VoteKind::Free | VoteKind::Held { .. });
        self.kinds.iter().flatten().filter(is_answer).count()
    }

    /// Returns the stored holds of this lease, one for each node that has the lease.
    fn held_by<'a>(&'a self, lease: &'a str) -> impl Iterator<Item = &'a StoredHold> {
        self.holds.iter().filter(move |hold| hold.lease == lease)
    }

    fn most_held(&self) -> usize {
        self.holds.iter().map(|hold| self.held_by(&hold.lease).count()).max().unwrap_or(0)
    }

    /// Returns `true` if no further reply can change the outcome.
    fn is_decided(&self) -> bool {
        let needed = majority(self.kinds.len());
        let waiting = self.kinds.iter().filter(|kind| kind.is_none()).count();
        let most = self.most_held();
        most >= needed || (self.answered() >= needed && most + waiting < needed) || waiting == 0
    }

    fn outcome(&self) -> Inspected {
        let needed = majority(self.kinds.len());
        let holder = self.holds.iter().find(|hold| self.held_by(&hold.lease).count() >= needed);
        let Some(holder) = holder else { return Inspected::Free };
        let mut remaining: Vec<_> = self.held_by(&holder.lease).map(|hold| hold.remaining).collect();
        remaining.sort_unstable();
        let depth = self.held_by(&holder.lease).map(|hold| hold.depth).max().unwrap_or(holder.depth);
        // A majority keeps the lease for at least this long.
        Inspected::Held(StoredHold {
            lease: holder.lease.clone(),
            depth,
            remaining: remaining[remaining.len() - needed],
        })
    }
}

/// Releases the lock on all nodes on which the holder that the caller saw still holds it.
pub(super) async fn force(
    shared: &Arc<Shared>,
    request: ForceReleaseRequest,
) -> Result<Reply<ForceReleased>, BackendError> {
    let mut coming = Gather::new();
    for (node, member) in shared.nodes.iter().enumerate() {
        let (backend, request, at) = (member.backend.clone(), request.clone(), shared.clock.now());
        coming.push(async move { (node, at, backend.force_release(request).await) });
    }
    let mut tally = Tally::new(shared.nodes.len());
    let mut kinds = vec![None; shared.nodes.len()];
    let mut until = Moment::NEVER;
    while tally.ruling().is_none() {
        let Some((node, at, answer)) = coming.next(&*shared.clock, until).await else { break };
        let (word, kind) = match answer {
            Ok(Reply { now, outcome, .. }) => {
                shared.learn(node, at, now);
                match outcome {
                    ForceReleased::Released => (Word::Yes, VoteKind::Released),
                    ForceReleased::HolderChanged => (Word::No, VoteKind::Gone),
                    _ => (Word::Out, unknown_reply()),
                }
            }
            Err(error) => (Word::Out, VoteKind::Failed { error: error.to_string() }),
        };
        kinds[node] = Some(kind);
        tally.add(word);
        if tally.is_lost() {
            until = until.min(shared.clock.now() + GRACE);
        }
    }
    let clock = shared.clock.clone();
    in_background(async move {
        let until = clock.now() + STRAGGLER_TIMEOUT;
        while coming.next(&*clock, until).await.is_some() {}
    });
    let votes = shared.votes(kinds);
    match tally.ruling() {
        Some(Ruling::Yes) => Ok(shared.reply(ForceReleased::Released, votes)),
        Some(Ruling::No) => Ok(shared.reply(ForceReleased::HolderChanged, votes)),
        Some(Ruling::Unknown) | None => {
            Err(shared.no_majority("confirmed the release", Applied::Unknown, votes))
        }
    }
}
