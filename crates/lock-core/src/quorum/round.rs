//! One attempt to take a lock from a majority of nodes. It decides and does nothing else: proposals go out and answers come in.
//!
//! ```text
//!             stale: T is raised, votes for the old T are void
//!            ┌─────────────┐
//!            ▼             │
//!   begin ─ asking all nodes ──▶ won    a majority granted T
//!                          └───▶ lost   a majority is out of reach: busy, contended or failed
//! ```
//!
//! - Only an answer to the current proposal is a vote. Votes for different tokens never add up.
//! - Won and lost are final. Answers that come later change nothing.
//! - A lost round takes a moment longer to say why, if answers that are still under way may show that one lease holds a
//!   majority.

use super::node::{MAX_CLOCK_DISTANCE, Vote};
use crate::{
    backend::{Floor, VoteKind},
    store::LEAD,
    token::FencingToken,
};
use std::time::Duration;

/// A round of clients that outbid one another ends as contended after so many raised tokens.
const MAX_RAISES: u32 = 8;
/// A node that is asked again so often with a corrected clock is taken for one that cannot answer in time.
const MAX_LATES: u32 = 2;

/// An attempt.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Round {
    reserve: u32,
    floor: u64,
    proposal: Ballot,
    nodes: Vec<Node>,
    raises: u32,
    /// The current token was drawn before the clocks of the nodes were known.
    misjudged: bool,
    verdict: Option<Verdict>,
}

/// The proposal that counts: answers to an earlier one are no votes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ballot {
    /// The number of the proposal in its round.
    pub number: u32,
    /// The proposed token.
    pub token: FencingToken,
    /// The end of the range.
    pub last: FencingToken,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Node {
    /// The answer to the current proposal.
    answer: Option<Answer>,
    /// The last counter heard of.
    counter: u64,
    lates: u32,
}

/// The answer of a node, as a round sees it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Answer {
    /// It executed the proposal.
    Voted(Vote),
    /// It failed, with this error.
    Failed(String),
}

/// The next thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Wait for the next answer.
    Wait,
    /// Ask this node again, with a corrected clock.
    ProposeTo(usize),
    /// Ask all nodes with the new token, also those that granted the old one.
    ProposeToAll,
    /// The round is lost; further answers decide how. The undo may begin.
    Lost,
    /// The round has ended.
    Ended(Verdict),
}

/// The end of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// A majority granted this range.
    Won {
        /// The token of the hold.
        first: FencingToken,
        /// The end of the range.
        last: FencingToken,
    },
    /// One lease holds a majority.
    Busy {
        /// The time after which a majority may be free.
        remaining: Option<Duration>,
    },
    /// The votes were split.
    Contended,
    /// Too many nodes failed, or do not vote.
    Failed,
    /// Too many nodes executed the proposal after its `not_after`.
    Late,
}

impl Round {
    /// Begins a round over so many nodes. `clock` is the corrected clock, in microseconds.
    #[must_use]
    pub fn begin(nodes: usize, reserve: u32, floor: Floor, clock: u64) -> Self {
        let node = Node { answer: None, counter: 0, lates: 0 };
        let nothing = FencingToken::new(0);
        let mut round = Self {
            reserve,
            floor: floor.map_or(0, FencingToken::get),
            proposal: Ballot { number: 0, token: nothing, last: nothing },
            nodes: vec![node; nodes],
            raises: 0,
            misjudged: false,
            verdict: None,
        };
        round.propose(clock);
        round
    }

    /// The proposal that counts now.
    #[must_use]
    pub fn proposal(&self) -> Ballot {
        self.proposal
    }

    /// How many nodes are a majority.
    #[must_use]
    pub fn majority(&self) -> usize {
        majority(self.nodes.len())
    }

    /// A node answered the proposal of this number, or failed to. `clock` is the corrected clock, in microseconds.
    pub fn answered(&mut self, node: usize, number: u32, answer: Answer, clock: u64) -> Step {
        if let Answer::Voted(Vote::Busy { counter, .. } | Vote::Stale { counter }) = answer {
            self.nodes[node].counter = self.nodes[node].counter.max(counter);
        }
        if number != self.proposal.number || self.verdict.is_some() {
            return self.step();
        }
        let was_lost = self.is_lost();
        match &answer {
            Answer::Voted(Vote::Granted) => self.nodes[node].counter = self.proposal.last.get(),
            Answer::Voted(Vote::Late) if !was_lost && self.nodes[node].lates < MAX_LATES => {
                self.nodes[node].lates += 1;
                return Step::ProposeTo(node);
            }
            _ => {}
        }
        let is_stale = matches!(answer, Answer::Voted(Vote::Stale { .. }));
        self.nodes[node].answer = Some(answer);
        self.misjudged |= self.is_misjudged(clock);
        let is_worth_it = (is_stale && self.can_outbid(node, clock)) || (self.misjudged && self.is_lost());
        if !was_lost && is_worth_it && self.raises < MAX_RAISES {
            self.raises += 1;
            self.propose(clock);
            return Step::ProposeToAll;
        }
        self.step()
    }

    /// Ends a lost round without waiting for further answers.
    pub fn end(&mut self) -> Verdict {
        let verdict = self.verdict.unwrap_or_else(|| self.reason());
        *self.verdict.insert(verdict)
    }

    /// The answers to the current proposal.
    pub fn votes(&self) -> impl Iterator<Item = Option<&Answer>> {
        self.nodes.iter().map(|node| node.answer.as_ref())
    }

    /// Makes a new proposal; every earlier vote is void.
    fn propose(&mut self, clock: u64) {
        let token = self.next_token(clock);
        let most = clock.saturating_add(LEAD);
        let last = token.saturating_add(self.reserve.into()).min(most).max(token);
        self.proposal = Ballot {
            number: self.proposal.number + 1,
            token: FencingToken::new(token),
            last: FencingToken::new(last),
        };
        self.nodes.iter_mut().for_each(|node| node.answer = None);
        self.misjudged = false;
    }

    /// Above the clock, the floor, and the counters that were heard of. A counter that is far above the clock counts only if
    /// too many nodes have it to win without them: one node whose clock was wrong would otherwise close the name for all.
    fn next_token(&self, clock: u64) -> u64 {
        let far = clock.saturating_add(micros(MAX_CLOCK_DISTANCE));
        let mut counters: Vec<_> = self.nodes.iter().map(|node| node.counter).collect();
        counters.sort_unstable();
        let near = counters.iter().copied().filter(|counter| *counter <= far).max().unwrap_or(0);
        clock.max(self.floor).max(near).max(counters[self.majority() - 1]).saturating_add(1)
    }

    /// The next token is above the counter of this node, and may win: enough nodes have not refused for another reason. It does
    /// not follow a counter that is far ahead, although it grows with the clock.
    fn can_outbid(&self, node: usize, clock: u64) -> bool {
        let token = self.next_token(clock);
        let may_grant = |node: &&Node| match node.answer {
            None | Some(Answer::Voted(Vote::Granted)) => true,
            Some(Answer::Voted(Vote::Stale { .. })) => node.counter < token,
            Some(_) => false,
        };
        self.nodes[node].counter < token && self.nodes.iter().filter(may_grant).count() >= self.majority()
    }

    /// A node refused the token for its distance from the clock, which has been corrected since.
    fn is_misjudged(&self, clock: u64) -> bool {
        let clock_off = |node: &Node| node.answer == Some(Answer::Voted(Vote::ClockOff));
        let off = self.next_token(clock).abs_diff(self.proposal.token.get());
        off > micros(MAX_CLOCK_DISTANCE) / 4 && self.nodes.iter().any(clock_off)
    }

    fn count(&self, is: impl Fn(&Answer) -> bool) -> usize {
        self.nodes.iter().filter(|node| node.answer.as_ref().is_some_and(&is)).count()
    }

    fn granted(&self) -> usize {
        self.count(|answer| *answer == Answer::Voted(Vote::Granted))
    }

    fn waiting(&self) -> usize {
        self.nodes.iter().filter(|node| node.answer.is_none()).count()
    }

    /// Whether a majority is out of reach.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.granted() + self.waiting() < self.majority()
    }

    fn step(&mut self) -> Step {
        if self.verdict.is_none() && self.granted() >= self.majority() {
            let Ballot { token, last, .. } = self.proposal;
            self.verdict = Some(Verdict::Won { first: token, last });
        }
        if let Some(verdict) = self.verdict {
            return Step::Ended(verdict);
        }
        if !self.is_lost() {
            return Step::Wait;
        }
        let held = self.most_held().map_or(0, |(_, nodes)| nodes);
        let may_be_busy = held < self.majority() && held + self.waiting() >= self.majority();
        if may_be_busy { Step::Lost } else { Step::Ended(self.end()) }
    }

    /// The lease that most nodes are held by, and how many.
    fn most_held(&self) -> Option<(&str, usize)> {
        let held_by = |lease: &str| {
            self.count(|answer| matches!(answer, Answer::Voted(Vote::Busy { holder, .. }) if holder == lease))
        };
        self.holders().map(|(lease, _)| (lease, held_by(lease))).max_by_key(|(_, nodes)| *nodes)
    }

    fn holders(&self) -> impl Iterator<Item = (&str, Option<Duration>)> {
        self.nodes.iter().filter_map(|node| match &node.answer {
            Some(Answer::Voted(Vote::Busy { holder, remaining, .. })) => Some((holder.as_str(), *remaining)),
            _ => None,
        })
    }

    fn reason(&self) -> Verdict {
        if let Some((lease, nodes)) = self.most_held()
            && nodes >= self.majority()
        {
            // A majority is free when so many of them are.
            let mut left: Vec<_> =
                self.holders().filter(|(holder, _)| *holder == lease).map(|(_, left)| left).collect();
            left.sort_unstable();
            let needed = (self.majority() + nodes).saturating_sub(self.nodes.len()).max(1);
            return Verdict::Busy { remaining: left[needed - 1] };
        }
        let spare = self.nodes.len() - self.majority();
        let late = self.count(|answer| *answer == Answer::Voted(Vote::Late));
        let far = self.proposal.token.get().saturating_add(micros(MAX_CLOCK_DISTANCE));
        let voted = self.count(|answer| match answer {
            Answer::Voted(Vote::Granted | Vote::Busy { .. }) => true,
            // The clock of this node was wrong, and it votes when the others have caught up.
            Answer::Voted(Vote::Stale { counter }) => *counter <= far,
            // With the corrected clock, they may grant the next one.
            Answer::Voted(Vote::ClockOff) => self.misjudged,
            Answer::Voted(Vote::Quarantined | Vote::Late) | Answer::Failed(_) => false,
        });
        match self.nodes.len() - self.waiting() - voted {
            _ if late > spare => Verdict::Late,
            silent if silent > spare => Verdict::Failed,
            _ => Verdict::Contended,
        }
    }
}

impl Answer {
    /// The vote for errors, events and metrics; `left` is the time for which a young node does not vote.
    #[must_use]
    pub fn kind(&self, left: Duration) -> VoteKind {
        match self {
            Self::Voted(Vote::Granted) => VoteKind::Granted,
            Self::Voted(Vote::Busy { .. }) => VoteKind::Busy,
            Self::Voted(Vote::Stale { .. }) => VoteKind::Stale,
            Self::Voted(Vote::ClockOff) => VoteKind::ClockOff,
            Self::Voted(Vote::Quarantined) => VoteKind::Quarantined { left },
            Self::Voted(Vote::Late) => VoteKind::Late,
            Self::Failed(error) => VoteKind::Failed { error: error.clone() },
        }
    }
}

/// How many of so many nodes are a majority.
#[must_use]
pub fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
