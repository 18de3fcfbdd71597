//! The decisions of a majority, without effects: rounds of proposals, yes-or-no questions, and messages about a
//! release.

use crate::rules::{MAX_CLOCK_DISTANCE, Vote};
use lock_core::{
    __private::TOKEN_LEAD as LEAD,
    FencingToken,
    backend::{Floor, VoteKind},
};
use std::time::Duration;

/// Maximum number of times that a round raises its token. This limits clients that keep outbidding each other.
const MAX_RAISES: u32 = 8;
/// Maximum number of times that a node is asked again, with a corrected clock, because a request reached it too late.
const MAX_LATES: u32 = 2;

/// One attempt to acquire a lock, by proposing a token T to all nodes. It turns replies into the next step.
///
/// ```text
///             stale: raises T and voids the votes for the old T
///            ┌─────────────┐
///            ▼             │
///   begin ─ asking all nodes ──▶ won    a majority granted T
///                          └───▶ lost   a majority is out of reach: busy, contended or failed
/// ```
///
/// - Only a reply to the current proposal is a vote. Votes for different tokens are never added up.
/// - A win or a loss is final. Later replies change nothing.
/// - A lost round may wait briefly to learn the reason: replies in flight may show that one lease holds a majority.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Round {
    reserve: u32,
    floor: u64,
    proposal: Ballot,
    nodes: Vec<Node>,
    raises: u32,
    /// `true` if a node refused the current token because of its clock, and the clock estimate has since changed.
    misjudged: bool,
    verdict: Option<Verdict>,
}

/// A proposal of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ballot {
    /// Number of the proposal within its round.
    pub number: u32,
    /// The proposed token.
    pub token: FencingToken,
    /// End of the token range.
    pub last: FencingToken,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Node {
    /// Reply to the current proposal.
    answer: Option<Answer>,
    /// Highest counter that the node is known to have.
    counter: u64,
    /// Number of times that the node was asked again because a request reached it too late.
    lates: u32,
}

/// A node's reply to a proposal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The node voted.
    Voted(Vote),
    /// The request failed with this error.
    Failed(String),
}

/// The next step of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Wait for the next reply.
    Wait,
    /// Send the proposal to this node again, with a corrected clock.
    ProposeTo(usize),
    /// Send the new proposal to all nodes, including those that granted the old one.
    ProposeToAll,
    /// The round is lost. Further replies may show the reason; [`Round::end`] does not wait for them.
    Lost,
    /// The round has ended with this verdict.
    Ended(Verdict),
}

/// The result of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// A majority granted this range.
    Won {
        /// Token of the hold.
        first: FencingToken,
        /// End of the token range.
        last: FencingToken,
    },
    /// One lease holds a majority.
    Busy {
        /// Time after which a majority may be free; `None` if unknown.
        remaining: Option<Duration>,
    },
    /// The votes were split.
    Contended,
    /// Too many nodes failed or did not vote.
    Failed,
    /// Too many nodes received the proposal after its `not_after`.
    Late,
}

impl Round {
    /// Begins a round over this many nodes. `clock` is the corrected clock, in microseconds.
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

    /// Returns the current proposal. Replies to earlier ones are not votes.
    #[must_use]
    pub fn proposal(&self) -> Ballot {
        self.proposal
    }

    /// Returns the number of nodes that form a majority.
    #[must_use]
    pub fn majority(&self) -> usize {
        majority(self.nodes.len())
    }

    /// Handles a node's reply to the proposal with this number, and returns the next step. `clock` is the corrected
    /// clock, in microseconds.
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

    /// Ends a lost round without waiting for further replies.
    pub fn end(&mut self) -> Verdict {
        let verdict = self.verdict.unwrap_or_else(|| self.reason());
        *self.verdict.insert(verdict)
    }

    /// Returns the replies to the current proposal, in the order of the nodes.
    pub fn votes(&self) -> impl Iterator<Item = Option<&Answer>> {
        self.nodes.iter().map(|node| node.answer.as_ref())
    }

    /// Makes a new proposal and voids all earlier votes.
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

    /// Returns a token above the clock, the floor and the known counters. A counter far above the clock counts only if
    /// no majority is possible without the nodes that have such counters. Otherwise one node whose clock was wrong
    /// would block the name for all clients.
    fn next_token(&self, clock: u64) -> u64 {
        let far = clock.saturating_add(micros(MAX_CLOCK_DISTANCE));
        let mut counters: Vec<_> = self.nodes.iter().map(|node| node.counter).collect();
        counters.sort_unstable();
        let near = counters.iter().copied().filter(|counter| *counter <= far).max().unwrap_or(0);
        clock.max(self.floor).max(near).max(counters[self.majority() - 1]).saturating_add(1)
    }

    /// Returns `true` if the next token is above this node's counter and may win: enough nodes have not refused for
    /// another reason. A counter far ahead is not outbid just because the next token grows with the clock.
    fn can_outbid(&self, node: usize, clock: u64) -> bool {
        let token = self.next_token(clock);
        let may_grant = |node: &&Node| match node.answer {
            None | Some(Answer::Voted(Vote::Granted)) => true,
            Some(Answer::Voted(Vote::Stale { .. })) => node.counter < token,
            Some(_) => false,
        };
        self.nodes[node].counter < token && self.nodes.iter().filter(may_grant).count() >= self.majority()
    }

    /// Returns `true` if a node refused the token because of its clock, and the clock estimate has been corrected
    /// since.
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

    /// Returns `true` if a majority is out of reach.
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

    /// Returns the lease that holds the most nodes, and their number.
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
            // A majority is free once `needed` of these nodes are.
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
            // A counter farther ahead comes from a wrong clock. Its node cannot vote until the clocks have caught up.
            Answer::Voted(Vote::Stale { counter }) => *counter <= far,
            // These nodes may grant the token of the next round, which follows the corrected clock.
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
    /// Returns the vote as errors, events and metrics report it. `left` is the time until a quarantined node may vote.
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

/// The replies so far to a yes-or-no question that a majority decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tally {
    nodes: usize,
    yes: usize,
    no: usize,
    out: usize,
}

/// A node's reply to the question of a [`Tally`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Word {
    /// Certainly yes.
    Yes,
    /// Certainly no.
    No,
    /// A reply that does not count: an error, a quarantined node, or a request that arrived too late.
    Out,
}

/// The decision of a majority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ruling {
    /// A majority said yes.
    Yes,
    /// Enough nodes said no that no majority can say yes.
    No,
    /// Neither answer can reach the number of nodes that it needs, because too many replies do not count.
    Unknown,
}

impl Tally {
    /// Creates a tally without replies.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        Self { nodes, yes: 0, no: 0, out: 0 }
    }

    /// Counts a node's reply.
    pub fn add(&mut self, word: Word) {
        match word {
            Word::Yes => self.yes += 1,
            Word::No => self.no += 1,
            Word::Out => self.out += 1,
        }
    }

    /// Returns the decision as soon as no further reply can change it.
    #[must_use]
    pub fn ruling(&self) -> Option<Ruling> {
        let waiting = self.nodes - self.yes - self.no - self.out;
        let (yes, no) = (majority(self.nodes), self.nodes - majority(self.nodes) + 1);
        match self {
            _ if self.yes >= yes => Some(Ruling::Yes),
            _ if self.no >= no => Some(Ruling::No),
            _ if self.yes + waiting < yes && self.no + waiting < no => Some(Ruling::Unknown),
            _ => None,
        }
    }

    /// Returns `true` if a majority can no longer say yes.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.no + self.out > self.nodes - majority(self.nodes)
    }
}

/// The messages about the latest release of a name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Burst {
    nodes: Vec<usize>,
    reported: bool,
    number: u64,
}

/// The action that a message requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message {
    /// No action.
    Known,
    /// Wait for further messages, then call [`Burst::is_overdue`] with this number.
    First(u64),
    /// Report the release.
    Report,
}

impl Burst {
    /// Handles a node's message about a release. A second message from the same node belongs to the next release.
    pub(crate) fn hear(&mut self, node: usize, majority: usize) -> Message {
        let is_next = self.nodes.contains(&node);
        if is_next {
            *self = Self { nodes: Vec::new(), reported: false, number: self.number };
        }
        self.nodes.push(node);
        if self.reported {
            return Message::Known;
        }
        if self.nodes.len() >= majority {
            self.reported = true;
            return Message::Report;
        }
        if self.nodes.len() > 1 {
            return Message::Known;
        }
        self.number += 1;
        Message::First(self.number)
    }

    /// Returns `true` if the burst with this number still waits for its majority, and marks it as reported.
    pub(crate) fn is_overdue(&mut self, number: u64) -> bool {
        let overdue = self.number == number && !self.reported;
        self.reported |= overdue;
        overdue
    }
}

/// Returns the number of nodes that form a majority of `nodes`.
#[must_use]
pub fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
