//! What is searched: who wants the lock how often, how many faults there are, how far time goes.

use crate::laws::Law;
use lock_core::{
    Retention,
    model::{HandOffBudget, Keep, TermValues},
};
use lock_testkit::planted::PlantedBug;
use std::time::Duration;

/// The faults that are left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Requests and replies that never arrive.
    pub lose: u8,
    /// Messages that need longer than everybody else; perhaps longer than anybody waits.
    pub delay: u8,
    /// Requests that are carried out twice.
    pub duplicate: u8,
    /// Wake-ups that never arrive.
    pub lose_wake: u8,
    /// Restarts of the server without data.
    pub restart: u8,
    /// Returns of the server to a state that it saved.
    pub restore: u8,
    /// Leases that the server forgets.
    pub evict: u8,
    /// Processes that stop for a while.
    pub pause: u8,
    /// Waiters that go away.
    pub cancel: u8,
    /// Wall clocks that jump, after which a process trusts its hold only when the store has confirmed it.
    pub suspect: u8,
    /// Processes that shut down.
    pub close: u8,
}

impl Budget {
    /// No faults.
    pub const NONE: Self = Self {
        lose: 0,
        delay: 0,
        duplicate: 0,
        lose_wake: 0,
        restart: 0,
        restore: 0,
        evict: 0,
        pause: 0,
        cancel: 0,
        suspect: 0,
        close: 0,
    };

    /// Both.
    #[must_use]
    pub const fn and(&self, other: &Self) -> Self {
        Self {
            lose: self.lose + other.lose,
            delay: self.delay + other.delay,
            duplicate: self.duplicate + other.duplicate,
            lose_wake: self.lose_wake + other.lose_wake,
            restart: self.restart + other.restart,
            restore: self.restore + other.restore,
            evict: self.evict + other.evict,
            pause: self.pause + other.pause,
            cancel: self.cancel + other.cancel,
            suspect: self.suspect + other.suspect,
            close: self.close + other.close,
        }
    }
}

/// How long somebody waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wait {
    /// Until it is granted.
    Forever,
    /// One try.
    Once,
    /// So long.
    For(Duration),
}

/// One acquire of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Want {
    /// Who wants it, within the process; the same owner re-enters.
    pub owner: u64,
    /// Under which terms.
    pub terms: TermValues,
    /// How long it waits.
    pub wait: Wait,
    /// Whether its guard is released by hand, rather than dropped.
    pub by_hand: bool,
}

impl Want {
    /// The owner wants a lease of the usual length.
    #[must_use]
    pub const fn of(owner: u64) -> Self {
        Self { owner, terms: LONG, wait: Wait::Forever, by_hand: false }
    }

    /// With a short lease.
    #[must_use]
    pub const fn short(owner: u64) -> Self {
        Self { terms: SHORT, ..Self::of(owner) }
    }

    /// A short lease that nobody renews.
    #[must_use]
    pub const fn fixed(owner: u64) -> Self {
        Self { terms: FIXED, ..Self::of(owner) }
    }

    /// The lease may be passed on to it, or by it, so often and for a second.
    #[must_use]
    pub const fn passing(self, passes: u32) -> Self {
        let hand_off = HandOffBudget { passes, within: HAND_OFF };
        Self { terms: TermValues { hand_off, ..self.terms }, ..self }
    }

    /// Its guard is released by hand.
    #[must_use]
    pub const fn by_hand(self) -> Self {
        Self { by_hand: true, ..self }
    }

    /// It waits so long.
    #[must_use]
    pub const fn wait(self, wait: Wait) -> Self {
        Self { wait, ..self }
    }
}

/// 10 s, renewed every 3 s, a request takes at most 1 s.
pub(crate) const LONG: TermValues = terms(10_000, 3_000);
/// 4 s, renewed every 1.2 s.
const SHORT: TermValues = terms(4_000, 1_200);
/// 4 s, not renewed.
const FIXED: TermValues = TermValues { keep: Keep::Fixed, ..SHORT };

/// How long after the store's grant a lease may be passed on.
const HAND_OFF: Duration = Duration::from_secs(1);

/// How long a request to the store may take.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);

const fn terms(lease: u64, every: u64) -> TermValues {
    TermValues {
        poll_interval: Duration::from_secs(5),
        lease: Duration::from_millis(lease),
        keep: Keep::Renewed { every: Duration::from_millis(every) },
        operation_timeout: TIMEOUT,
        margin: Duration::from_millis(200),
        // Nobody is to be refused for an outage: who waits for ever here is granted, or goes away.
        outage_budget: Duration::from_secs(100_000),
        max_hold: None,
        token_floor: None,
        retention: Retention::Backend,
        hand_off: HandOffBudget { passes: 0, within: Duration::ZERO },
    }
}

/// What is searched.
#[derive(Debug, Clone)]
pub struct Config {
    /// Per process, what its application wants, in this order, each at any time.
    pub scripts: Vec<Vec<Want>>,
    /// The faults.
    pub budget: Budget,
    /// Faults and applications have no time after this; the world then only runs to its end.
    pub horizon: Duration,
    /// By how much, in millionths, the clock of the first process is slow.
    pub slow_clock: u64,
    /// By how much the first process is wrong about the server's clock, until the first answer.
    pub wrong_estimate: i64,
    /// Whether a plain acquire may be carried out again after its answer was given, which the contract of a backend
    /// forbids.
    pub resends_answered: bool,
    /// Whether the name was used before: only then a grant at the beginning can set tokens aside.
    pub used_before: bool,
    /// Whether the machine is held to more than is promised: nobody sleeps much longer than the lease that he waits for,
    /// also if it ends without a release.
    pub punctual: bool,
    /// The only promise that counts, to see that it can be broken at all.
    pub only: Option<Law>,
    /// The planted bug.
    pub bug: Option<PlantedBug>,
}

impl Config {
    /// Without faults.
    #[must_use]
    pub fn new(scripts: &[&[Want]], horizon: Duration) -> Self {
        Self {
            scripts: scripts.iter().map(|script| script.to_vec()).collect(),
            budget: Budget::NONE,
            horizon,
            slow_clock: 0,
            wrong_estimate: 0,
            resends_answered: false,
            used_before: false,
            punctual: false,
            only: None,
            bug: None,
        }
    }

    /// With these faults.
    #[must_use]
    pub fn faults(self, budget: Budget) -> Self {
        Self { budget, ..self }
    }

    /// With this bug.
    #[must_use]
    pub fn with(self, bug: PlantedBug) -> Self {
        Self { bug: Some(bug), ..self }
    }

    pub(crate) fn has(&self, bug: PlantedBug) -> bool {
        self.bug == Some(bug)
    }
}
