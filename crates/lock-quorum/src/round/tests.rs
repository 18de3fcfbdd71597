//! Single rounds, reply by reply, including the counterexample behind each rule; then tallies and bursts.

use super::*;

const CLOCK: u64 = 1_700_000_000_000_000;
const GRANTED: Vote = Vote::Granted;

struct Story {
    round: Round,
    clock: u64,
}

impl Story {
    fn of(nodes: usize) -> Self {
        Self { round: Round::begin(nodes, 0, None, CLOCK), clock: CLOCK }
    }

    fn token(&self) -> u64 {
        self.round.proposal().token.get()
    }

    /// Lets the node answer the current proposal.
    fn says(&mut self, node: usize, vote: Vote) -> Step {
        self.says_to(self.round.proposal().number, node, vote)
    }

    fn says_to(&mut self, number: u32, node: usize, vote: Vote) -> Step {
        self.round.answered(node, number, Answer::Voted(vote), self.clock)
    }

    fn fails(&mut self, node: usize) -> Step {
        let number = self.round.proposal().number;
        self.round.answered(node, number, Answer::Failed("down".to_owned()), self.clock)
    }
}

fn busy(holder: &str, seconds: u64) -> Vote {
    Vote::Busy { holder: holder.to_owned(), remaining: Some(Duration::from_secs(seconds)), counter: 0 }
}

fn stale(counter: u64) -> Vote {
    Vote::Stale { counter }
}

fn is_won(step: Step) -> bool {
    matches!(step, Step::Ended(Verdict::Won { .. }))
}

#[test]
fn majority_wins_and_nothing_changes_it() {
    let mut story = Story::of(3);
    assert_eq!(story.token(), CLOCK + 1);
    assert_eq!(story.says(0, GRANTED), Step::Wait);
    assert!(is_won(story.says(2, GRANTED)));
    assert!(is_won(story.says(1, stale(CLOCK + 500))), "a late refusal is no reason to raise the token");
    assert!(is_won(story.says(1, busy("other", 9))));
}

#[test]
fn half_of_the_nodes_is_not_a_majority() {
    let mut story = Story::of(4);
    story.says(0, GRANTED);
    assert_eq!(story.says(1, GRANTED), Step::Wait);
    assert!(is_won(story.says(2, GRANTED)));
}

/// If votes for different proposals were added up, a token of 2 could follow one of 6.
#[test]
fn raised_token_discards_earlier_votes() {
    let mut story = Story::of(3);
    let first = story.round.proposal();
    story.says(0, GRANTED);
    assert_eq!(
        story.says(1, stale(CLOCK + 6)),
        Step::ProposeToAll,
        "the node that granted is asked again, too"
    );
    assert_eq!(story.token(), CLOCK + 7);
    assert_eq!(story.says_to(first.number, 2, GRANTED), Step::Wait, "a vote for the old token");
    assert_eq!(story.says(1, GRANTED), Step::Wait, "the first vote for the new one");
    assert!(is_won(story.says(2, GRANTED)));
}

#[test]
fn stale_reply_to_an_old_proposal_raises_nothing() {
    let mut story = Story::of(3);
    let first = story.round.proposal();
    story.says(1, stale(CLOCK + 6));
    let raised = story.token();
    assert_eq!(story.says_to(first.number, 2, stale(CLOCK + 9)), Step::Wait);
    assert_eq!(story.token(), raised);
    assert_eq!(story.says(0, stale(CLOCK + 7)), Step::ProposeToAll);
    assert_eq!(story.token(), CLOCK + 10, "the late answer still reported its counter");
}

#[test]
fn clients_that_outbid_one_another_end_as_contended() {
    let mut story = Story::of(3);
    let mut raises = 0;
    while story.says(0, stale(story.token() + 1)) == Step::ProposeToAll {
        raises += 1;
    }
    assert_eq!(raises, MAX_RAISES);
    assert_eq!(story.says(1, stale(0)), Step::Ended(Verdict::Contended));
}

/// A floor has raised the counters. A fast node refuses immediately, while the same reply from a slow node is
/// outstanding.
#[test]
fn far_counter_raises_nothing_until_a_majority_has_it() {
    let mut story = Story::of(3);
    let far = CLOCK + 5_000_000;
    story.clock += 50;
    assert_eq!(story.says(0, stale(far)), Step::Wait, "this node grants no lower token");
    assert_eq!(story.says(2, GRANTED), Step::Wait);
    assert_eq!(story.says(1, stale(far)), Step::ProposeToAll);
    assert_eq!(story.token(), far + 1);
    story.says(2, Vote::ClockOff);
    story.says(0, GRANTED);
    assert!(is_won(story.says(1, GRANTED)));
}

#[test]
fn single_holder_of_a_majority_is_busy() {
    let mut story = Story::of(5);
    story.says(0, busy("a", 9));
    story.says(1, busy("a", 3));
    let ended = story.says(2, busy("a", 5));
    // Two free nodes and the one that is free after 3 s are a majority.
    assert_eq!(ended, Step::Ended(Verdict::Busy { remaining: Some(Duration::from_secs(3)) }));
}

#[test]
fn split_vote_is_contended() {
    let mut story = Story::of(5);
    story.says(0, GRANTED);
    story.says(1, GRANTED);
    story.says(2, busy("a", 9));
    story.says(3, busy("a", 9));
    assert_eq!(story.says(4, busy("b", 9)), Step::Ended(Verdict::Contended));
}

/// With one node down, the third reply decides, and the fifth shows the reason.
#[test]
fn lost_round_waits_for_its_reason() {
    let mut story = Story::of(5);
    story.fails(0);
    story.says(1, busy("a", 9));
    assert_eq!(story.says(2, busy("a", 9)), Step::Lost);
    assert!(story.round.is_lost());
    assert_eq!(story.says(4, GRANTED), Step::Lost, "a grant after the loss does not win the round");
    let ended = story.says(3, busy("a", 9));
    assert!(matches!(ended, Step::Ended(Verdict::Busy { .. })), "{ended:?}");
}

#[test]
fn lost_round_without_a_reason_is_contended() {
    let mut story = Story::of(5);
    story.fails(0);
    story.says(1, busy("a", 9));
    story.says(2, busy("a", 9));
    assert_eq!(story.round.end(), Verdict::Contended);
}

#[test]
fn nodes_that_are_down_or_quarantined_fail_the_round() {
    let mut story = Story::of(3);
    story.fails(0);
    assert_eq!(story.says(1, Vote::Quarantined), Step::Ended(Verdict::Failed));
    let mut story = Story::of(3);
    story.says(2, GRANTED);
    story.fails(0);
    assert!(is_won(story.says(1, GRANTED)), "one failed node does not prevent a majority");
}

/// Quarantined nodes' votes do not count, because leases that the nodes forgot may still be valid.
#[test]
fn quarantined_node_gives_no_majority() {
    let mut story = Story::of(5);
    story.says(3, GRANTED);
    story.says(4, GRANTED);
    story.says(2, Vote::Quarantined);
    story.says(0, busy("a", 9));
    assert_eq!(story.says(1, busy("a", 9)), Step::Ended(Verdict::Contended));
}

#[test]
fn late_node_is_asked_again() {
    let mut story = Story::of(3);
    for _ in 0..MAX_LATES {
        assert_eq!(story.says(1, Vote::Late), Step::ProposeTo(1));
    }
    assert_eq!(story.says(1, Vote::Late), Step::Wait);
    for _ in 0..MAX_LATES {
        story.says(0, Vote::Late);
    }
    assert_eq!(story.says(0, Vote::Late), Step::Ended(Verdict::Late));
}

/// This machine's clock is an hour behind, as the nodes' replies show.
#[test]
fn token_follows_the_clocks_of_the_nodes() {
    let mut story = Story::of(3);
    story.clock += 3_600_000_000;
    assert_eq!(story.says(0, Vote::ClockOff), Step::Wait);
    assert_eq!(story.says(1, Vote::ClockOff), Step::ProposeToAll);
    assert_eq!(story.token(), CLOCK + 3_600_000_001);
    story.says(0, GRANTED);
    assert!(is_won(story.says(1, GRANTED)));
}

/// The round is lost for other reasons, but the next one may win with the corrected clock.
#[test]
fn first_round_of_a_wrong_clock_is_contended() {
    let mut story = Story::of(5);
    story.says(0, busy("a", 9));
    story.says(1, busy("a", 9));
    story.says(2, Vote::Quarantined);
    story.clock += 3_600_000_000;
    story.says(3, Vote::ClockOff);
    assert_eq!(story.says(4, Vote::ClockOff), Step::Ended(Verdict::Contended));
}

#[test]
fn wrong_clock_costs_one_vote() {
    let mut story = Story::of(3);
    assert_eq!(story.says(0, Vote::ClockOff), Step::Wait);
    story.says(1, GRANTED);
    assert!(is_won(story.says(2, GRANTED)));
}

/// The counter on a node whose clock was an hour ahead would otherwise block the name for an hour.
#[test]
fn one_far_counter_does_not_raise_the_token() {
    let mut story = Story::of(3);
    let far = CLOCK + 3_600_000_000;
    assert_eq!(story.says(0, stale(far)), Step::Wait);
    story.says(1, GRANTED);
    assert!(is_won(story.says(2, GRANTED)));
    assert_eq!(story.token(), CLOCK + 1);
}

/// The next token grows with the clock. That alone is no reason to void the other nodes' votes.
#[test]
fn far_counter_is_not_outbid_by_the_clock() {
    let mut story = Story::of(3);
    story.clock += 500;
    assert_eq!(story.says(0, stale(CLOCK + 3_600_000_000)), Step::Wait);
    story.says(1, GRANTED);
    assert!(is_won(story.says(2, GRANTED)));
}

/// Until the clocks have caught up, the next round cannot do better.
#[test]
fn far_counter_counts_as_a_failed_vote() {
    let mut story = Story::of(3);
    story.says(0, stale(CLOCK + 3_600_000_000));
    story.says(1, GRANTED);
    assert_eq!(story.fails(2), Step::Ended(Verdict::Failed));
}

/// A floor that an application once requested has put all nodes' counters far ahead.
#[test]
fn far_counter_of_a_majority_raises_the_token() {
    let mut story = Story::of(3);
    let far = CLOCK + 5_000_000;
    assert_eq!(story.says(0, stale(far)), Step::Wait);
    assert_eq!(story.says(1, stale(far)), Step::ProposeToAll);
    assert_eq!(story.token(), far + 1);
}

#[test]
fn range_ends_within_the_lead_of_the_clock() {
    let range = |reserve, floor| {
        let Ballot { token, last, .. } = Round::begin(3, reserve, floor, CLOCK).proposal();
        (token.get() - CLOCK, last.get() - CLOCK)
    };
    assert_eq!(range(0, None), (1, 1));
    assert_eq!(range(256, None), (1, 257));
    assert_eq!(range(u32::MAX, None), (1, LEAD));
    assert_eq!(range(9, Some(FencingToken::new(CLOCK + 5_000))), (5_001, 5_001));
}

/// With three healthy nodes, the maximum over the majorities {0, 1}, {0, 2}, {1, 2} would give the tokens 1, 2, 2.
#[test]
fn tokens_of_overlapping_majorities_grow() {
    let mut counters = [0u64; 3];
    let mut tokens = Vec::new();
    for quorum in [[0, 1], [0, 2], [1, 2]] {
        let mut story = Story::of(3);
        let mut next = quorum.to_vec();
        while let Some(node) = next.pop() {
            let token = story.token();
            let vote = if token > counters[node] { GRANTED } else { stale(counters[node]) };
            if vote == GRANTED {
                counters[node] = token;
            }
            if story.says(node, vote) == Step::ProposeToAll {
                next = quorum.to_vec();
            }
        }
        tokens.push(story.token());
    }
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

fn ruling(nodes: usize, words: &[Word]) -> Option<Ruling> {
    let mut tally = Tally::new(nodes);
    words.iter().for_each(|word| tally.add(*word));
    tally.ruling()
}

#[test]
fn majority_decides_without_the_rest() {
    use Word::{No, Out, Yes};
    assert_eq!(ruling(3, &[Yes]), None);
    assert_eq!(ruling(3, &[Yes, Yes]), Some(Ruling::Yes));
    assert_eq!(ruling(5, &[No, No]), None);
    assert_eq!(ruling(5, &[No, No, No]), Some(Ruling::No));
    assert_eq!(ruling(3, &[Out, Out]), Some(Ruling::Unknown));
    assert_eq!(ruling(3, &[Out, No]), None, "the third may say no");
    assert_eq!(ruling(3, &[Out, No, Yes]), Some(Ruling::Unknown), "one certain no is not enough");
    assert_eq!(ruling(4, &[Yes, Yes]), None, "two of four are not a majority");
    assert_eq!(ruling(4, &[No, No]), Some(Ruling::No));
}

#[test]
fn majority_reports_a_release_once() {
    let mut burst = Burst::default();
    assert_eq!(burst.hear(0, 3), Message::First(1));
    assert_eq!(burst.hear(4, 3), Message::Known);
    assert_eq!(burst.hear(2, 3), Message::Report);
    assert_eq!(burst.hear(1, 3), Message::Known, "a straggler of the same release");
    assert!(!burst.is_overdue(1));
}

#[test]
fn second_message_of_a_node_is_another_release() {
    let mut burst = Burst::default();
    assert_eq!(burst.hear(0, 2), Message::First(1));
    assert_eq!(burst.hear(1, 2), Message::Report);
    assert_eq!(burst.hear(0, 2), Message::First(2), "the third node never reported the first release");
    assert_eq!(burst.hear(2, 2), Message::Report);
}

#[test]
fn message_of_a_minority_is_reported_after_a_delay() {
    let mut burst = Burst::default();
    assert_eq!(burst.hear(0, 2), Message::First(1));
    assert!(burst.is_overdue(1));
    assert!(!burst.is_overdue(1), "reported once");
    assert_eq!(burst.hear(1, 2), Message::Known, "the release is already reported");
}
