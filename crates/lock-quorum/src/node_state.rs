//! The state of each node as its replies show it, without effects: its clock, whether it has stopped answering, and
//! what may remain of a lease.

use crate::round::majority;
use lock_core::{
    backend::{Applied, BackendError},
    clock::{Moment, UtcTime},
};
use std::time::Duration;

/// A node becomes silent after this many times its usual response time, within [`MIN_LIMIT`] and [`MAX_LIMIT`].
const LIMIT_FACTOR: u32 = 4;
/// Minimum limit. Shorter stalls of a server or of this process are common.
const MIN_LIMIT: Duration = Duration::from_millis(300);
/// Maximum limit. No request waits longer for its reply.
const MAX_LIMIT: Duration = Duration::from_secs(3);
/// Limit before a node's first reply. It exceeds the round trip of any usual network.
const FIRST_LIMIT: Duration = Duration::from_secs(1);
/// Pause after the first request to a silent node. It doubles with each further request, up to [`MAX_PAUSE`].
const INITIAL_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Estimates of the clocks of all nodes.
///
/// Each node has its own estimate. If a request's deadline came from another node's clock, the node could execute the
/// request long after its sender gave up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeClocks {
    /// Microseconds by which each node's clock is ahead of this process's clock; `None` if unknown.
    offsets: Vec<Option<i64>>,
}

impl NodeClocks {
    /// Creates estimates for this many nodes, all of them unknown.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        Self { offsets: vec![None; nodes] }
    }

    /// Updates a node's estimate from a request that was sent and answered at these moments, and executed at this time
    /// by the node's clock. The two moments bound the offset, and the estimate moves only as far as the bounds require.
    /// A slow reply therefore does not spoil a good estimate, and the estimate follows a clock step immediately.
    pub fn learn(&mut self, node: usize, sent: Moment, answered: Moment, executed: UtcTime) {
        let executed = signed(executed.as_micros());
        let (least, most) = (executed - signed(answered.as_micros()), executed - signed(sent.as_micros()));
        let offset = &mut self.offsets[node];
        let estimate = offset.unwrap_or_else(|| least + (most - least) / 2);
        *offset = Some(estimate.clamp(least.min(most), most));
    }

    /// Returns this node's time, or the median for a node that has never answered. Returns `None` until a node has
    /// answered.
    #[must_use]
    pub fn of(&self, node: usize, now: Moment) -> Option<UtcTime> {
        let offset = self.offsets[node].or_else(|| self.median_offset())?;
        Some(shifted(now, offset))
    }

    /// Returns the quorum's time, which is the median time of the nodes that have answered.
    #[must_use]
    pub fn median(&self, now: Moment) -> Option<UtcTime> {
        self.median_offset().map(|offset| shifted(now, offset))
    }

    fn median_offset(&self) -> Option<i64> {
        let mut known: Vec<_> = self.offsets.iter().copied().flatten().collect();
        known.sort_unstable();
        known.get(known.len().checked_sub(1)? / 2).copied()
    }
}

/// Returns the latest time at which a request with this budget, counted from `now`, may be executed.
#[must_use]
pub fn not_after(now: UtcTime, budget: Duration) -> UtcTime {
    now + budget
}

/// The nodes that have stopped answering, and the moments at which they are asked again.
///
/// A request without a reply costs memory and processor time until it is given up. A node that does not reply
/// therefore gets few requests:
///
/// ```text
///               no reply for longer than the node's limit
/// answering ──────────────────────────────────────────────────▶ silent: one request per pause
///     ▲                                                            │
///     └───────────────────────── any reply ───────────────────────┘
/// ```
///
/// - The limit follows the node's usual response time, so a slow node that answers is never silent.
/// - A silent node is asked again within [`MAX_PAUSE`] if there is anything to ask, so its return is noticed.
/// - If the other nodes are fewer than a majority, silent nodes are asked as well. A round may still miss the vote of a
///   node that returned within the last pause.
/// - Leaving a node out is equivalent to a request that fails before it is sent, so no safety rule depends on it.
#[derive(Debug)]
pub(crate) struct NodeSilence {
    nodes: Vec<Node>,
}

#[derive(Debug, Clone)]
struct Node {
    /// Moment of the first request since the latest reply.
    asked_since: Option<Moment>,
    /// Longest recent response time; `None` before the first reply.
    answer_time: Option<Duration>,
    /// Moment from which the node is asked again while it is silent.
    ask_at: Moment,
    pause: Duration,
}

impl NodeSilence {
    /// Creates the state for this many nodes, none of them silent.
    pub(crate) fn new(nodes: usize) -> Self {
        let node = Node { asked_since: None, answer_time: None, ask_at: Moment::START, pause: INITIAL_PAUSE };
        Self { nodes: vec![node; nodes] }
    }

    /// Records a request to a node. If the node is left out, returns the moment from which it is asked again.
    pub(crate) fn ask(&mut self, node: usize, now: Moment) -> Result<(), Moment> {
        let is_left_out = {
            let node = &mut self.nodes[node];
            node.asked_since.get_or_insert(now);
            node.is_silent(now) && now < node.ask_at
        };
        if is_left_out
            && self.nodes.iter().filter(|node| !node.is_silent(now)).count() >= majority(self.nodes.len())
        {
            return Err(self.nodes[node].ask_at);
        }
        let node = &mut self.nodes[node];
        if node.is_silent(now) {
            node.ask_at = now + node.pause;
            node.pause = (node.pause * 2).min(MAX_PAUSE);
        }
        Ok(())
    }

    /// Records a node's reply to a request that was sent at this moment.
    pub(crate) fn answered(&mut self, node: usize, sent: Moment, now: Moment) {
        let node = &mut self.nodes[node];
        let recent = node.answer_time.map_or(Duration::ZERO, |time| time - time / 8);
        let answer_time = Some(recent.max(now.since(sent)));
        *node = Node { asked_since: None, answer_time, ask_at: Moment::START, pause: INITIAL_PAUSE };
    }
}

impl Node {
    fn is_silent(&self, now: Moment) -> bool {
        let limit =
            self.answer_time.map_or(FIRST_LIMIT, |time| (time * LIMIT_FACTOR).clamp(MIN_LIMIT, MAX_LIMIT));
        self.asked_since.is_some_and(|since| now.since(since) > limit)
    }
}

/// The requests that may have set one lease on one node, and the releases that prove that nothing is left of it.
///
/// A proposal or a heal without a reply may be executed later, until its `not_after`. A release proves that the lease
/// is gone in three cases:
///
/// - No request that may set the lease was in flight when the release was sent.
/// - The release was executed after the last `not_after`, both by the node's clock.
/// - The release found the lease, and only one request can have set it. A request is executed at most once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Residue {
    /// Number of requests that may have set the lease.
    requests: u32,
    /// Number of these requests that have no reply yet.
    unanswered: u32,
    /// `true` if the outcome of a request is unknown even though it was answered or given up.
    unknown: bool,
    /// Latest time at which one of the requests may be executed.
    not_after: UtcTime,
    /// Number of times that the lease was set, according to the replies.
    sets: u32,
    /// Value of `sets` when the latest executed release was sent.
    released: u32,
    /// `true` if a release has proved that no request can still set the lease.
    is_over: bool,
}

/// The result of a request that may set the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The lease was set, or extended.
    Set,
    /// The lease was certainly not set.
    NotSet,
    /// The lease may have been set.
    Unknown,
}

impl Outcome {
    /// Returns the outcome that the answer to a proposal or a heal shows.
    pub(crate) fn of<T>(answer: &Result<T, BackendError>, is_set: impl Fn(&T) -> bool) -> Self {
        match answer {
            Ok(reply) if is_set(reply) => Self::Set,
            Ok(_) => Self::NotSet,
            Err(error) if error.applied() == Applied::No => Self::NotSet,
            Err(_) => Self::Unknown,
        }
    }
}

/// A release in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Release {
    /// Time after which the release must be executed to be conclusive; `None` if it is conclusive at any time.
    after: Option<UtcTime>,
    requests: u32,
    sets: u32,
}

impl Residue {
    /// Records a request that may set the lease until `not_after`.
    pub fn sent(&mut self, not_after: UtcTime) {
        self.is_over = false;
        self.requests += 1;
        self.unanswered += 1;
        self.not_after = self.not_after.max(not_after);
    }

    /// Records the outcome of a request that was answered or given up.
    pub fn answered(&mut self, outcome: Outcome) {
        self.unanswered = self.unanswered.saturating_sub(1);
        match outcome {
            Outcome::Set => self.sets += 1,
            Outcome::Unknown => self.unknown = true,
            Outcome::NotSet => {}
        }
    }

    /// Records an unknown outcome for every request without a reply.
    pub fn give_up(&mut self) {
        while self.unanswered > 0 {
            self.answered(Outcome::Unknown);
        }
    }

    /// Returns `true` if the node certainly does not have the lease and no request can still set it.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.is_over || (self.sets == self.released && !self.is_open())
    }

    /// Returns `true` if a request may still set the lease.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.unanswered > 0 || self.unknown
    }

    /// Returns a release to send now.
    #[must_use]
    pub fn release(&self) -> Release {
        let after = self.is_open().then_some(self.not_after);
        Release { after, requests: self.requests, sets: self.sets }
    }

    /// Records a release that was executed at this time by the node's clock, if the time is known, and whether it found
    /// the lease. Returns the time after which the next release is conclusive, or `None` if the next one need not wait.
    pub fn released(&mut self, release: Release, executed: Option<UtcTime>, found: bool) -> Option<UtcTime> {
        let was_last = found && (release.requests, self.requests) == (1, 1);
        let proves = was_last || release.after.is_none_or(|not_after| executed > Some(not_after));
        self.is_over |= proves && release.after.is_some();
        // A grant whose reply arrived in the meantime may have been executed after the release.
        self.released = self.released.max(release.sets);
        (!self.is_clean() && self.is_open()).then_some(self.not_after)
    }
}

fn signed(micros: u64) -> i64 {
    i64::try_from(micros).unwrap_or(i64::MAX)
}

fn shifted(now: Moment, offset: i64) -> UtcTime {
    UtcTime::from_micros(now.as_micros().saturating_add_signed(offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: usize = 3;
    const NOW: UtcTime = UtcTime::from_micros(1_000_000);
    const LATER: UtcTime = UtcTime::from_micros(1_000_001);

    fn at(millis: u64) -> Moment {
        Moment::START + Duration::from_millis(millis)
    }

    #[test]
    fn median_ignores_one_wrong_clock() {
        let mut clocks = NodeClocks::new(3);
        assert_eq!(clocks.median(at(0)), None);
        for (node, seconds) in [(0, 100), (1, 3600), (2, 101)] {
            clocks.learn(node, at(0), at(0), UtcTime::from_millis(seconds * 1000));
        }
        assert_eq!(clocks.median(at(1000)), Some(UtcTime::from_millis(102_000)));
        assert_eq!(clocks.of(1, at(1000)), Some(UtcTime::from_millis(3_601_000)));
    }

    #[test]
    fn slow_reply_does_not_spoil_an_estimate() {
        let mut clocks = NodeClocks::new(1);
        clocks.learn(0, at(0), at(0), UtcTime::from_millis(50_000));
        clocks.learn(0, at(1000), at(6000), UtcTime::from_millis(51_000));
        assert_eq!(clocks.of(0, at(6000)), Some(UtcTime::from_millis(56_000)));
    }

    #[test]
    fn clock_step_is_followed_immediately() {
        let mut clocks = NodeClocks::new(1);
        clocks.learn(0, at(0), at(0), UtcTime::from_millis(50_000));
        clocks.learn(0, at(10), at(12), UtcTime::from_millis(20_011));
        let seen = clocks.of(0, at(12)).unwrap();
        assert!(seen >= UtcTime::from_millis(20_011) && seen <= UtcTime::from_millis(20_013), "{seen:?}");
    }

    /// Asks node 0 each millisecond from `from` to `to`, and returns the moments at which it was not left out.
    fn asks(silence: &mut NodeSilence, from: u64, to: u64) -> Vec<u64> {
        (from..to).filter(|now| silence.ask(0, at(*now)).is_ok()).collect()
    }

    /// Creates nodes that have answered once, within a millisecond.
    fn known() -> NodeSilence {
        let mut silence = NodeSilence::new(NODES);
        (0..NODES).for_each(|node| silence.answered(node, at(0), at(1)));
        silence
    }

    #[test]
    fn silent_node_gets_one_request_per_pause() {
        let mut silence = known();
        let limit = 1000 + 300;
        assert_eq!(asks(&mut silence, 1000, limit), (1000..limit).collect::<Vec<_>>());
        let asked = asks(&mut silence, limit + 1, 10_000);
        let pauses: Vec<_> = asked.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(pauses[..7], [20, 40, 80, 160, 320, 640, 1000]);
        assert!(pauses[7..].iter().all(|pause| *pause == 1000), "{pauses:?}");
        assert_eq!(silence.ask(0, at(10_000)), Err(at(asked[asked.len() - 1] + 1000)));
    }

    #[test]
    fn any_reply_ends_the_silence() {
        let mut silence = known();
        asks(&mut silence, 1000, 5000);
        silence.answered(0, at(1000), at(5000));
        assert_eq!(asks(&mut silence, 5000, 6000).len(), 1000);
    }

    #[test]
    fn slow_node_that_replies_is_never_silent() {
        for took in [250, 500, 1000, 2900] {
            let mut silence = known();
            if took <= 1000 {
                silence.nodes[0] = NodeSilence::new(1).nodes[0].clone();
            } else {
                silence.answered(0, at(0), at(took));
            }
            for now in 0..20_000 {
                assert_eq!(silence.ask(0, at(now)), Ok(()), "at {now} ms, with answers after {took} ms");
                if now >= took {
                    silence.answered(0, at(now - took), at(now));
                }
            }
        }
    }

    #[test]
    fn one_slow_reply_raises_the_limit_for_a_while() {
        let mut silence = known();
        silence.answered(0, at(0), at(500));
        assert_eq!(asks(&mut silence, 1000, 3000).len(), 2000);
        (0..50).for_each(|_| silence.answered(0, at(3000), at(3001)));
        assert!(asks(&mut silence, 4000, 5000).len() < 500, "the limit has fallen");
    }

    #[test]
    fn unresponsive_node_has_a_limit_of_its_own() {
        let mut silence = known();
        silence.nodes[0] = NodeSilence::new(1).nodes[0].clone();
        assert_eq!(asks(&mut silence, 0, 1000).len(), 1000);
        assert!(asks(&mut silence, 1001, 2000).len() < 10);
    }

    #[test]
    fn silent_nodes_are_contacted_if_the_others_are_not_a_majority() {
        let mut silence = known();
        let (asked, late) = (at(1000), at(2000));
        (0..2).for_each(|node| assert_eq!(silence.ask(node, asked), Ok(())));
        for _ in 0..10 {
            assert_eq!((silence.ask(0, late), silence.ask(1, late)), (Ok(()), Ok(())));
        }
        silence.answered(1, late, late);
        assert!(silence.ask(0, late).is_err());
    }

    #[test]
    fn refused_proposal_leaves_nothing() {
        let mut residue = Residue::default();
        assert!(residue.is_clean());
        residue.sent(NOW);
        assert!(!residue.is_clean(), "it may be executed");
        residue.answered(Outcome::NotSet);
        assert!(residue.is_clean());
    }

    #[test]
    fn granted_reply_needs_one_release() {
        let mut residue = Residue::default();
        residue.sent(LATER);
        residue.answered(Outcome::Set);
        let release = residue.release();
        assert_eq!(residue.released(release, Some(NOW), false), None);
        assert!(residue.is_clean());
    }

    #[test]
    fn release_before_not_after_proves_nothing_about_an_unknown_request() {
        let mut residue = Residue::default();
        residue.sent(NOW);
        residue.answered(Outcome::Unknown);
        let release = residue.release();
        assert_eq!(residue.released(release, Some(NOW), false), Some(NOW));
        assert!(!residue.is_clean(), "the proposal may be executed after the release");
        let release = residue.release();
        assert_eq!(residue.released(release, Some(LATER), false), None);
        assert!(residue.is_clean());
    }

    #[test]
    fn grant_that_arrives_during_a_release_is_released_again() {
        let mut residue = Residue::default();
        residue.sent(LATER);
        let release = residue.release();
        residue.answered(Outcome::Set);
        assert_eq!(
            residue.released(release, Some(NOW), false),
            None,
            "the next release need not wait, since no request is in flight"
        );
        assert!(!residue.is_clean(), "the grant may have been executed after the release");
        let release = residue.release();
        residue.released(release, Some(NOW), false);
        assert!(residue.is_clean());
    }

    #[test]
    fn release_that_finds_the_lease_of_the_only_request_proves_it() {
        let mut residue = Residue::default();
        residue.sent(LATER);
        let release = residue.release();
        assert_eq!(residue.released(release, Some(NOW), true), None);
        assert!(residue.is_clean(), "the proposal was executed before the release");
        residue.answered(Outcome::Set);
        assert!(residue.is_clean());
    }

    #[test]
    fn release_that_finds_the_lease_of_one_of_two_requests_proves_nothing() {
        for between in [false, true] {
            let mut residue = Residue::default();
            residue.sent(LATER);
            let early = residue.release();
            residue.sent(LATER);
            let release = if between { early } else { residue.release() };
            assert_eq!(residue.released(release, Some(NOW), true), Some(LATER));
            assert!(!residue.is_clean(), "the other one may be executed after the release");
        }
    }

    #[test]
    fn reply_after_a_proof_changes_nothing() {
        let mut residue = Residue::default();
        residue.sent(NOW);
        let release = residue.release();
        residue.released(release, Some(LATER), false);
        residue.answered(Outcome::Set);
        assert!(residue.is_clean(), "it was executed before the release");
    }
}
