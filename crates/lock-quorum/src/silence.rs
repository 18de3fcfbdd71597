//! The nodes that have stopped answering, and the moments at which they are asked again.
//!
//! A request without a reply costs memory and processor time until it is given up. A node that does not reply
//! therefore gets few requests:
//!
//! ```text
//!               no reply for longer than the node's limit
//! answering ──────────────────────────────────────────────────▶ silent: one request per pause
//!     ▲                                                            │
//!     └───────────────────────── any reply ───────────────────────┘
//! ```
//!
//! - The limit follows the node's usual response time, so a slow node that answers is never silent.
//! - A silent node is asked again within [`MAX_PAUSE`] if there is anything to ask, so its return is noticed.
//! - If the other nodes are fewer than a majority, silent nodes are asked as well. A round may still miss the vote of a
//!   node that returned within the last pause.
//! - Leaving a node out is equivalent to a request that fails before it is sent, so no safety rule depends on this file.

use crate::round::majority;
use lock_core::clock::Moment;
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

/// The nodes, and which of them are silent.
#[derive(Debug)]
pub(super) struct NodeSilence {
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
    pub(super) fn new(nodes: usize) -> Self {
        let node = Node { asked_since: None, answer_time: None, ask_at: Moment::START, pause: INITIAL_PAUSE };
        Self { nodes: vec![node; nodes] }
    }

    /// Records a request to a node. If the node is left out, returns the moment from which it is asked again.
    pub(super) fn ask(&mut self, node: usize, now: Moment) -> Result<(), Moment> {
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
    pub(super) fn answered(&mut self, node: usize, sent: Moment, now: Moment) {
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

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: usize = 3;

    fn at(millis: u64) -> Moment {
        Moment::START + Duration::from_millis(millis)
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
}
