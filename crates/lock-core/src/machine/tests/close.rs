//! Shutdown: everything is released, and nothing new begins.

use super::*;

#[test]
fn shutdown_refuses_waiters_and_releases_the_hold() {
    let (mut story, lease, hold) = Story::with_a_holding();
    story.enters(B).tell(Event::Shutdown);
    story.refuses(B, Refusal::ShutDown);
    story.loses(hold, LostReason::ShutDown);
    assert_eq!(story.releases(0), lease);
    story.enters(C).refuses(C, Refusal::ShutDown);
    story.released(lease, 0, Released::Released { listeners: None });
    story.ends_idle();
    assert!(!story.machine.is_removable(), "the guard still exists");
    story.tell(Event::Drop { hold });
    assert!(story.machine.is_removable());
}

#[test]
fn shutdown_during_an_attempt_releases_the_grant() {
    let mut story = Story::begins();
    story.enters(A);
    let lease = story.tries();
    story.tell(Event::Shutdown).refuses(A, Refusal::ShutDown);
    story.says_nothing();
    story.granted(lease);
    assert_eq!(story.releases(0), lease);
}

#[test]
fn shutdown_unsubscribes_immediately() {
    let (mut story, _) = Story::with_a_waiting();
    story.tell(Event::Watched(WatchAnswer::Acknowledged));
    let lease = story.tries();
    story.busy(lease, Duration::from_secs(20));
    story.tell(Event::Shutdown).refuses(A, Refusal::ShutDown);
    story.says(Command::Unwatch);
    story.tell(Event::Unwatched(WatchAnswer::Acknowledged));
    assert!(story.machine.is_removable());
}
