//! Fairness between processes: the pauses of a busy process, the turns of several waiting ones, and the limits of the
//! delays that both cause.

use super::{
    hand_off::{LOT, budget, reserve_of},
    *,
};

const LONG: Duration = Duration::from_secs(20);

fn no_hand_off() -> Terms {
    crate::options::LockOptions::new().hand_off(0, Duration::ZERO).terms().unwrap()
}

/// Acquires the lock for the front waiter and releases it, as a process with many local waiters does.
fn turn(story: &mut Story, listeners: Option<u32>) {
    let lease = story.tries();
    let hold = story.granted(lease);
    story.next();
    story.tell(Event::Drop { hold });
    story.next();
    story.releases(0);
    story.released(lease, 0, Released::Released { listeners });
}

#[test]
fn busy_process_yields_until_listeners_have_had_a_turn() {
    let mut story = Story::begins();
    for waiter in 1..=60 {
        story.enters(WaiterId(waiter));
    }
    let lease = story.tries();
    story.busy(lease, Duration::from_secs(20));
    story.says(Command::Watch);
    story.tell(Event::Watched(WatchAnswer::Acknowledged));
    for _ in 0..16 {
        turn(&mut story, Some(2));
    }
    story.says_nothing();
    // Its own release wakes it, too; that is no reason to go first.
    story.tell(Event::Woken).says_nothing();
    story.at(0.009).says_nothing();
    story.at(0.013);
    for _ in 0..16 {
        turn(&mut story, Some(2));
    }
    story.says_nothing();
    story.tell(Event::Woken).says_nothing();
    story.at(0.015).tell(Event::Woken);
    story.tries();
}

#[test]
fn process_yields_unconditionally_only_if_listeners_are_unknown() {
    for listeners in [None, Some(0)] {
        let mut story = Story::begins();
        for waiter in 1..=1_100 {
            story.enters(WaiterId(waiter));
        }
        for _ in 0..1_024 {
            turn(&mut story, listeners);
        }
        if listeners.is_none() {
            story.says_nothing();
        }
        story.at(0.013).tries();
    }
}

/// A process with many waiters that had its turn while `others` further processes were subscribed. Its pause is over.
fn after_own_turn(others: u32) -> Story {
    let mut story = Story::begins();
    for waiter in 1..=200 {
        story.enters_with(WaiterId(waiter), |entry| entry.terms = no_hand_off());
    }
    let lease = story.tries();
    story.busy(lease, LONG);
    story.says(Command::Watch);
    story.tell(Event::Watched(WatchAnswer::Acknowledged)).tell(Event::Woken);
    story.takes_its_turn(others);
    story
}

#[derive(Clone, Copy, PartialEq)]
enum First {
    WakeUp,
    Reply,
}

impl Story {
    /// The request that was just sent is granted, and the lock released. The next request finds the lock taken.
    fn takes_its_turn(&mut self, others: u32) {
        self.holds_and_releases(others, First::WakeUp);
        let pause_over = self.machine.wake_at().unwrap();
        self.jump(pause_over);
        let lease = self.tell(Event::Tick).tries();
        self.busy(lease, LONG).says_nothing();
    }

    /// Holds the lock for long enough that others go first after the release, which wakes this process, too.
    fn holds_and_releases(&mut self, others: u32, first: First) {
        let lease = self.tries();
        let hold = self.granted(lease);
        self.next();
        self.jump(self.now + Duration::from_millis(200));
        self.tell(Event::Drop { hold });
        self.next();
        self.releases(0);
        if first == First::WakeUp {
            self.tell(Event::Woken);
        }
        self.released(lease, 0, Released::Released { listeners: Some(others + 1) });
        if first == First::Reply {
            self.tell(Event::Woken);
        }
        self.says_nothing();
    }

    /// Another process releases the lock. Returns the time until the next request, in milliseconds.
    fn delay(&mut self) -> u64 {
        let released_at = self.now;
        self.tell(Event::Woken);
        while self.said.is_empty() {
            let wake = self.machine.wake_at().expect("a waiting machine wakes");
            self.jump(wake);
            self.tell(Event::Tick);
        }
        u64::try_from(self.now.since(released_at).as_millis()).unwrap()
    }

    /// Another process releases the lock, and a third one gets it. Returns the delay of the request that finds it
    /// taken.
    fn delay_until_busy(&mut self) -> u64 {
        let delay = self.delay();
        let lease = self.tries();
        self.busy(lease, LONG).says_nothing();
        delay
    }
}

#[test]
fn process_that_waits_longest_asks_first() {
    let mut story = after_own_turn(3);
    let delays: Vec<_> = (0..5).map(|_| story.delay_until_busy()).collect();
    assert_eq!(delays, [2, 1, 0, 0, 0], "a process that had its turn lets the three others go first");
}

#[test]
fn two_processes_never_delay_each_other() {
    let mut story = after_own_turn(1);
    let delays: Vec<_> = (0..5).map(|_| story.delay_until_busy()).collect();
    assert_eq!(delays, [0; 5]);
}

#[test]
fn processes_that_miss_their_turn_are_not_waited_for_again() {
    let mut story = after_own_turn(3);
    assert_eq!(story.delay(), 2);
    story.takes_its_turn(3);
    assert_eq!(story.delay_until_busy(), 0, "two of them did not want the lock");
    story.delay();
    story.takes_its_turn(3);
    assert_eq!(story.delay(), 1, "one of the two was faster, so it wants the lock again");
}

#[test]
fn few_of_many_processes_are_let_go_first() {
    let mut story = after_own_turn(500);
    let delays: Vec<_> = (0..6).map(|_| story.delay_until_busy()).collect();
    assert_eq!(delays, [4, 3, 2, 1, 0, 0]);
}

/// The wake-up came while a request was in progress, which then found the lock taken.
#[test]
fn wake_up_during_a_request_keeps_its_turn() {
    let mut story = after_own_turn(3);
    story.delay_until_busy();
    story.delay();
    let lease = story.tries();
    story.tell(Event::Woken).busy(lease, LONG);
    let lease = story.tries();
    story.busy(lease, LONG).says_nothing();
    story.delay();
    story.takes_its_turn(3);
    assert_eq!(story.delay(), 2, "no other process was counted as absent");
}

#[test]
fn request_without_a_wake_up_makes_nobody_absent() {
    let mut story = after_own_turn(3);
    story.delay();
    story.takes_its_turn(3);
    // The lock is free when the lease of the other holder ends, without a release.
    let poll = story.machine.wake_at().unwrap();
    story.jump(poll);
    story.tell(Event::Tick);
    story.takes_its_turn(3);
    assert_eq!(story.delay(), 0, "only two missed their turn");
    story.takes_its_turn(2);
}

#[test]
fn own_release_is_no_turn_of_another_process() {
    for first in [First::WakeUp, First::Reply] {
        let mut story = after_own_turn(3);
        story.delay();
        story.holds_and_releases(3, first);
        let pause = story.machine.wake_at().unwrap().since(story.now);
        assert!(pause >= Duration::from_millis(10), "the others go first for {pause:?}");
        assert_eq!(story.delay(), 0, "one of three others took its turn");
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A subscribed process without waiters that had the lock when `others` further processes were subscribed.
fn had_the_lock(others: u32) -> Story {
    let (mut story, _) = Story::with_a_waiting();
    story.tell(Event::Watched(WatchAnswer::Acknowledged));
    let lease = story.tries();
    let hold = story.granted(lease);
    story.grants(A);
    story.at(0.001).tell(Event::Drop { hold });
    story.next();
    story.releases(0);
    story.released(lease, 0, Released::Released { listeners: Some(others + 1) });
    story.tell(Event::Woken).says_nothing();
    story.at(0.5);
    story
}

/// Another process releases the lock and nobody takes it.
#[test]
fn short_wait_for_a_free_lock_sends_a_request() {
    let mut story = had_the_lock(11);
    story.tell(Event::Woken).says_nothing();
    let until = story.now + ms(10);
    story.enters_with(B, |entry| entry.wait_policy = WaitPolicy::Deadline(until));
    story.at(0.6);
    story.tries();
}

#[test]
fn single_try_is_not_delayed_by_a_release_of_another() {
    let mut story = had_the_lock(11);
    story.tell(Event::Woken).says_nothing();
    story.enters_with(B, |entry| entry.wait_policy = WaitPolicy::NoWait);
    story.tries();
}

/// Another process takes the lock again and again, for 5 ms each time.
#[test]
fn single_try_is_not_held_up_by_a_stream_of_wake_ups() {
    let mut story = had_the_lock(500);
    let begin = story.now;
    story.tell(Event::Woken);
    story.enters_with(B, |entry| entry.wait_policy = WaitPolicy::NoWait);
    while story.said.is_empty() {
        let next = (story.now + ms(5)).since(Moment::START).as_secs_f64();
        story.at(next);
        if story.said.is_empty() {
            story.tell(Event::Woken);
        }
    }
    let waited = story.now.since(begin);
    assert!(waited <= ms(20), "the single attempt was sent after {waited:?}");
}

#[test]
fn wait_of_a_second_asks_the_store() {
    let mut story = had_the_lock(500);
    let until = story.now + ms(1_000);
    story.tell(Event::Woken);
    story.enters_with(B, |entry| entry.wait_policy = WaitPolicy::Deadline(until));
    while story.said.is_empty() {
        let next = (story.now + ms(5)).since(Moment::START).as_secs_f64();
        story.at(next);
        if story.said.is_empty() {
            story.tell(Event::Woken);
        }
    }
    story.tries();
}

/// A busy process steps back for 10 ms, which has to be enough for a wake-up and a request of another process.
#[test]
fn request_of_others_arrives_within_the_pause_of_a_busy_process() {
    let mut story = had_the_lock(11);
    story.tell(Event::Woken);
    story.enters(B);
    while story.said.is_empty() {
        let wake = story.machine.wake_at().unwrap();
        story.jump(wake);
        story.tell(Event::Tick);
    }
    let delay = story.now.since(at(0.5));
    assert!(delay < ms(10), "the busy process pauses for 10 ms; this one asks after {delay:?}");
}

fn busy_and_subscribed() -> Story {
    let mut story = Story::begins();
    for waiter in 1..=60 {
        story.enters_with(WaiterId(waiter), |entry| entry.terms = no_hand_off());
    }
    let lease = story.tries();
    story.busy(lease, LONG);
    story.says(Command::Watch);
    story.tell(Event::Watched(WatchAnswer::Acknowledged));
    story
}

fn holds_until_release(story: &mut Story) -> LeaseNumber {
    let lease = story.tries();
    let hold = story.granted(lease);
    story.next();
    story.tell(Event::Drop { hold });
    story.next();
    story.releases(0);
    lease
}

/// The reply to a release is lost after its wake-up came; the repetition finds nothing. The next own wake-up must not
/// end the pause.
#[test]
fn lost_reply_to_a_release_does_not_void_the_next_pause() {
    let mut story = busy_and_subscribed();
    let lease = holds_until_release(&mut story);
    story.tell(Event::Woken).says_nothing();
    story.at(0.1).release_unknown(lease, 0);
    let next = story.tries();
    // The repetition of the release, while the next waiter holds the lock.
    let hold = story.granted(next);
    story.next();
    story.at(0.4);
    assert_eq!(story.releases(0), lease);
    story.released(lease, 0, Released::Gone { held_by_other: false });
    pauses_after_a_long_hold(&mut story, next, hold);
}

/// An undo (Gone, no wake-up of its own) is in progress when another process releases: that is no echo. After the next
/// long hold, the own wake-up must not end the pause.
#[test]
fn wake_up_during_an_undo_does_not_void_the_next_pause() {
    let mut story = Story::begins();
    story.enters_with(A, |entry| entry.terms = no_hand_off());
    let lease = story.tries();
    story.busy(lease, LONG);
    story.says(Command::Watch);
    story.tell(Event::Watched(WatchAnswer::Acknowledged));
    let lease = story.tries();
    story.at(0.01).acquire_unknown(lease);
    story.tell(Event::Leave { waiter: A });
    assert_eq!(story.releases(0), lease);
    for waiter in 2..=60 {
        story.enters_with(WaiterId(waiter), |entry| entry.terms = no_hand_off());
    }
    story.tell(Event::Woken).says_nothing();
    story.at(0.02).released(lease, 0, Released::Gone { held_by_other: false });
    let next = story.tries();
    let hold = story.granted(next);
    story.next();
    story.at(0.5);
    pauses_after_a_long_hold(&mut story, next, hold);
}

/// The wait after a busy reply ends in 1 ms, when the lease of the holder is over. A wake-up must not postpone the try.
#[test]
fn wake_up_does_not_postpone_a_try_that_is_due() {
    let mut story = had_the_lock(11);
    story.enters(B);
    let lease = story.tries();
    story.busy(lease, ms(20)).says_nothing();
    let due = story.machine.wake_at().unwrap();
    let just_before = due.since(Moment::START).as_secs_f64() - 0.000_1;
    story.at(just_before).says_nothing();
    story.tell(Event::Woken);
    story.at(due.since(Moment::START).as_secs_f64() + 0.000_1);
    story.tries();
}

/// Ends a long hold, after which others go first. The wake-up by the own release does not end the pause.
fn pauses_after_a_long_hold(story: &mut Story, lease: LeaseNumber, hold: HoldId) {
    story.tell(Event::Drop { hold });
    story.next();
    assert_eq!(story.releases(0), lease);
    story.released(lease, 0, Released::Released { listeners: Some(2) });
    story.says_nothing();
    story.tell(Event::Woken);
    story.says_nothing();
}

/// `B` and all others queue again as soon as they have left, so this process never runs out of waiters.
/// Each hold takes a `step`, and each request a `round_trip`.
fn holds_until_it_steps_back(terms: &Terms, step: f64, round_trip: f64) -> u32 {
    let mut story = Story::begins();
    let mut entered = 0;
    let mut enter = |story: &mut Story| {
        entered += 1;
        story.enters_with(WaiterId(entered), |entry| entry.terms = terms.clone());
    };
    (0..3).for_each(|_| enter(&mut story));
    let lease = story.tries();
    story.busy(lease, Duration::from_secs(20));
    story.says(Command::Watch);
    story.tell(Event::Watched(WatchAnswer::Acknowledged));
    let (mut holds, mut now) = (0, 0.0);
    // From here on, a waiter of another process is subscribed.
    while let Some(command) = story.said.pop_front() {
        match command {
            Command::Io { operation: Operation::Acquire(ref request), .. } => {
                now += round_trip;
                story.at(now).granted_with(request.lease.number(), reserve_of(&command).into());
            }
            Command::Io { operation: Operation::Release(request), .. } => {
                now += round_trip;
                story.at(now).released(request.lease.number(), 0, Released::Released { listeners: Some(2) });
            }
            Command::Grant { grant, .. } => {
                holds += 1;
                now += step;
                enter(story.at(now));
                story.tell(Event::Drop { hold: grant.hold });
            }
            _ => {}
        }
        assert!(holds < 10_000, "another process waits forever");
    }
    assert!(story.machine.wake_at() >= Some(story.now + Duration::from_millis(10)), "others go first");
    holds
}

#[test]
fn hand_off_budget_limits_bypasses_of_a_waiter_in_another_process() {
    let second = Duration::from_secs(1);
    // The first of them was granted by the store.
    assert_eq!(holds_until_it_steps_back(&budget(5, second), 0.0, 0.0), 6);
    assert_eq!(holds_until_it_steps_back(&budget(1_000, second), 0.0, 0.0), 257, "by the reserved range");
    assert_eq!(
        holds_until_it_steps_back(&budget(1_000, Duration::from_millis(10)), 0.001, 0.0),
        10,
        "by time"
    );
    assert_eq!(
        holds_until_it_steps_back(&budget(0, second), 0.0, 0.0),
        16,
        "by its turns, without hand-offs"
    );
}

/// The time of a request is not left to others, however long it is.
#[test]
fn process_far_from_the_store_steps_back_as_well() {
    for round_trip in [0.005, 0.009, 0.011, 0.05] {
        let holds = holds_until_it_steps_back(&budget(0, Duration::from_secs(1)), 0.0, round_trip);
        assert!(holds <= 16, "{holds} holds at a round trip of {round_trip} s");
    }
}

#[test]
fn short_chains_share_one_budget() {
    // Two wait at a time, so a chain has one pass and ends with an empty queue, which alone is no reason to step back.
    let terms = budget(4, Duration::from_secs(1));
    let mut story = Story::begins();
    let mut entered = 0;
    let mut holds = 0;
    loop {
        for _ in 0..2 {
            entered += 1;
            story.enters_with(WaiterId(entered), |entry| entry.terms = terms.clone());
        }
        while let Some(command) = story.said.pop_front() {
            match command {
                Command::Io { operation: Operation::Acquire(request), .. } => {
                    story.granted_with(request.lease.number(), LOT);
                }
                Command::Io { operation: Operation::Release(request), .. } => {
                    story.released(request.lease.number(), 0, Released::Released { listeners: Some(1) });
                }
                Command::Grant { grant, .. } => {
                    holds += 1;
                    story.tell(Event::Drop { hold: grant.hold });
                }
                _ => {}
            }
        }
        if story.machine.waiters() > 0 {
            break;
        }
        assert!(holds < 10_000, "another process waits forever");
    }
    assert!(holds <= 16 + 4, "{holds} holds: more than its turns and the budget");
}
