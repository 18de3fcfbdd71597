//! This process's turn among several waiting processes.

use super::*;

const LONG: Duration = Duration::from_secs(20);

/// A process with many waiters that had its turn while `others` further processes were subscribed. Its pause is over.
fn after_own_turn(others: u32) -> Story {
    let mut story = Story::begins();
    let terms = crate::options::LockOptions::new().hand_off(0, Duration::ZERO).terms().unwrap();
    for waiter in 1..=200 {
        story.enters_with(WaiterId(waiter), |entry| entry.terms = terms.clone());
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

    /// Another process releases the lock, and a third one gets it. Returns the delay of the request that finds it taken.
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
