//! Split votes of a quorum.

use super::*;

#[test]
fn contended_attempt_uses_up_its_id() {
    let mut story = Story::begins();
    story.enters(A);
    let lease = story.tries();
    let retry_after = Duration::from_millis(200);
    story.acquired(lease, Acquired::Contended { retry_after }).says_nothing();
    story.at(0.19).says_nothing();
    assert_ne!(story.at(0.2).tries(), lease);
}

/// One node has a lease that is not released, and another does not vote: no round can win before one of them changes.
#[test]
fn rounds_without_a_winner_back_off() {
    let mut story = Story::begins();
    story.enters(A);
    let mut rounds = 0;
    while story.now < at(10.0) {
        let lease = story.tries();
        let retry_after = Duration::from_millis(5);
        story.acquired(lease, Acquired::Contended { retry_after }).says_nothing();
        rounds += 1;
        let next = story.machine.wake_at().unwrap();
        story.jump(next);
        story.tell(Event::Tick);
    }
    assert!((10..50).contains(&rounds), "{rounds} rounds in 10 s");
}
