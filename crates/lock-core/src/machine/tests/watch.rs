//! Waiting: subscribing, retrying and sleeping, and wake-ups at the worst moment.

use super::*;

#[test]
fn busy_lock_is_retried_once_the_subscription_is_acknowledged() {
    let (mut story, _) = Story::with_a_waiting();
    story.says_nothing();
    story.at(0.01).tell(Event::Watched(WatchAnswer::Acknowledged));
    // The release may have happened before the subscription was established.
    let lease = story.tries();
    story.busy(lease, Duration::from_secs(3_600)).says_nothing();
    story.at(29.9).says_nothing();
    // Nothing depends on a wake-up arriving.
    story.at(32.0).tries();
}

#[test]
fn unacknowledged_subscription_means_polling_every_five_seconds() {
    let (mut story, _) = Story::with_a_waiting();
    story.tell(Event::Watched(WatchAnswer::Failed));
    story.at(4.9);
    story.said.retain(|said| !matches!(said, Command::Watch));
    story.says_nothing();
    story.at(5.3);
    story.said.retain(|said| !matches!(said, Command::Watch));
    story.tries();
}

#[test]
fn missed_wake_ups_are_followed_by_a_try_within_half_a_second() {
    let mut tried_at = std::collections::BTreeSet::new();
    for drawn in 0..20 {
        let (mut story, _) = Story::with_a_waiting();
        story.tell(Event::Watched(WatchAnswer::Acknowledged));
        let lease = story.tries();
        story.busy(lease, Duration::from_secs(3_600)).says_nothing();
        story.world.drawn = drawn * 0x9E37_79B9;
        story.tell(Event::MissedWakes);
        let at = story.machine.wake_at().expect("it tries again");
        assert!(at < Moment::START + Duration::from_millis(500), "{at:?}");
        tried_at.insert(at);
    }
    assert!(tried_at.len() > 10, "names and processes would all ask at once: {tried_at:?}");
}

#[test]
fn next_waiter_retries_when_the_last_reply_is_old() {
    let (mut story, _) = Story::with_a_waiting();
    story.tell(Event::Watched(WatchAnswer::Acknowledged));
    let lease = story.tries();
    story.busy(lease, Duration::from_secs(3_600)).enters(B).says_nothing();
    story.at(4.0).tell(Event::Leave { waiter: A }).says_nothing();
    // The latest reply to A is too old for B.
    let lease = story.at(5.0).tries();
    story.busy(lease, Duration::from_secs(3_600)).says_nothing();
    story.at(34.9).says_nothing();
}

#[test]
fn wake_up_during_a_try_is_latched() {
    let mut story = Story::begins();
    story.enters(A);
    let lease = story.tries();
    // The store executes the attempt and then the release, whose message overtakes the busy reply.
    story.tell(Event::Woken).says_nothing();
    story.busy(lease, Duration::from_secs(20));
    story.tries();
}

#[test]
fn waiter_retries_when_the_lease_of_the_holder_expires() {
    let mut story = Story::begins();
    story.enters(A);
    let lease = story.tries();
    story.busy(lease, Duration::from_millis(700));
    story.says(Command::Watch);
    story.at(0.7).says_nothing();
    story.at(0.75).tries();
}

#[test]
fn the_subscription_outlives_the_last_waiter_by_two_seconds() {
    let (mut story, _) = Story::with_a_waiting();
    story.tell(Event::Watched(WatchAnswer::Acknowledged));
    let lease = story.tries();
    story.busy(lease, Duration::from_secs(20));
    story.at(1.0).tell(Event::Leave { waiter: A }).says_nothing();
    story.at(2.9).says_nothing();
    assert!(!story.machine.is_removable());
    story.at(3.0).says(Command::Unwatch);
    // The new subscription of a waiter that arrives now must not be undone by the old Unwatch.
    story.enters(B);
    let lease = story.tries();
    story.busy(lease, Duration::from_secs(20)).says_nothing();
    story.tell(Event::Unwatched(WatchAnswer::Acknowledged)).says(Command::Watch);
}

#[test]
fn returning_waiter_finds_the_subscription() {
    let (mut story, _) = Story::with_a_waiting();
    story.tell(Event::Watched(WatchAnswer::Acknowledged));
    let lease = story.tries();
    story.tell(Event::Leave { waiter: A }).busy(lease, Duration::from_secs(20));
    story.at(1.5).enters(B);
    let lease = story.tries();
    story.busy(lease, Duration::from_secs(20)).says_nothing();
    story.at(4.0).says_nothing();
    story.tell(Event::Woken);
    story.tries();
}

#[test]
fn failed_subscription_is_retried_while_somebody_waits() {
    let (mut story, _) = Story::with_a_waiting();
    story.tell(Event::Watched(WatchAnswer::Failed)).says_nothing();
    story.at(0.1).says(Command::Watch);
}

#[test]
fn backend_without_push_is_polled_with_back_off() {
    let mut story = Story::with(MachineConfig { push: false, ..MachineConfig::default() });
    story.enters(A);
    let mut lease = story.tries();
    let mut waits = Vec::new();
    for _ in 0..8 {
        let sent = story.now;
        story.busy(lease, Duration::from_secs(1000));
        story.jump(story.machine.wake_at().unwrap());
        story.tell(Event::Tick);
        lease = story.tries();
        waits.push(story.now.since(sent).as_millis());
    }
    assert!(waits[0] <= 60 && waits[..4].is_sorted(), "{waits:?}");
    assert!(waits[3..].iter().all(|wait| (250..270).contains(wait)), "{waits:?}");
}

/// The store cannot push, and its releases say that nobody listens, though others poll. Their longest interval is as
/// above. The time of a request is not left to others, however long it is.
#[test]
fn busy_process_pauses_for_longer_than_others_poll() {
    let cases = [(0.0, 0.0, 257), (0.0, 0.01, 101), (0.0, 2.0, 1), (0.012, 0.0, 257), (0.012, 0.1, 11)];
    for (round_trip, hold, most) in cases {
        let mut story = Story::with(MachineConfig { push: false, ..MachineConfig::default() });
        for waiter in 1..=300 {
            story.enters(WaiterId(waiter));
        }
        let mut holds = 0;
        while let Some(command) = story.said.pop_front() {
            let now = story.now.since(Moment::START).as_secs_f64();
            match command {
                Command::Io { operation: Operation::Acquire(request), .. } => {
                    story.at(now + round_trip).granted_with(request.lease.number(), 256);
                }
                Command::Io { operation: Operation::Release(request), .. } => {
                    let reply = Released::Released { listeners: Some(0) };
                    story.at(now + round_trip).released(request.lease.number(), 0, reply);
                }
                Command::Grant { grant, .. } => {
                    holds += 1;
                    story.at(now + hold).tell(Event::Drop { hold: grant.hold });
                }
                _ => {}
            }
        }
        assert!((1..=most).contains(&holds), "{holds} holds of {hold} s, {round_trip} s from the store");
        let asks_at = story.machine.wake_at().unwrap();
        assert!(asks_at >= story.now + Duration::from_millis(300), "others poll every 270 ms");
    }
}

#[test]
fn single_try_does_not_wait_for_others_that_poll() {
    let mut story = Story::with(MachineConfig { push: false, ..MachineConfig::default() });
    story.enters(A);
    let lease = story.tries();
    let hold = story.granted(lease);
    story.next();
    story.at(2.0).tell(Event::Drop { hold });
    story.next();
    story.releases(0);
    story.released(lease, 0, Released::Released { listeners: None }).says_nothing();
    story.enters_with(B, |entry| entry.wait_policy = WaitPolicy::NoWait).says_nothing();
    story.at(2.013).tries();
}

#[test]
fn doubtful_subscription_is_ended_when_nobody_waits() {
    let (mut story, _) = Story::with_a_waiting();
    story.tell(Event::Leave { waiter: A }).tell(Event::Watched(WatchAnswer::Failed)).says_nothing();
    story.at(0.1).says(Command::Unwatch);
    story.tell(Event::Unwatched(WatchAnswer::Failed)).says_nothing();
    story.at(0.3).says(Command::Unwatch);
    story.tell(Event::Unwatched(WatchAnswer::Acknowledged));
    assert!(story.machine.is_removable());
}

#[test]
fn unsubscribing_is_given_up_if_it_always_fails() {
    let (mut story, _) = Story::with_a_waiting();
    story.tell(Event::Watched(WatchAnswer::Failed)).tell(Event::Leave { waiter: A });
    let mut tries = 0;
    while let Some(wake) = story.machine.wake_at() {
        story.jump(wake);
        story.tell(Event::Tick).says(Command::Unwatch);
        story.tell(Event::Unwatched(WatchAnswer::Failed));
        tries += 1;
    }
    assert_eq!(tries, 10);
    assert!(story.machine.is_removable());
}
