//! The search space: the acquires of each process, the number of faults, and the time horizon.

use crate::laws::Law;
use lock_core::{
    Retention,
    backend::Share,
    model::{HandOffBudget, Keep, TermValues},
};
use lock_testkit::planted::PlantedBug;
use std::time::Duration;

/// The remaining faults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Requests and replies that never arrive.
    pub lose: u8,
    /// Messages that take longer than all others, and possibly longer than any wait.
    pub delay: u8,
    /// Requests that are executed twice.
    pub duplicate: u8,
    /// Wake-ups that never arrive.
    pub lose_wake: u8,
    /// Restarts of the server without data.
    pub restart: u8,
    /// Restarts of the server with a state that it saved.
    pub restore: u8,
    /// Leases that the server loses.
    pub evict: u8,
    /// Processes that are suspended for a while.
    pub pause: u8,
    /// Waiters that are dropped.
    pub cancel: u8,
    /// Wall clocks that jump, or forced releases by the process itself: it then relies on its hold only once the store has
    /// confirmed it, and does not hand off its lease again.
    pub suspect: u8,
    /// Processes that shut down.
    pub close: u8,
    /// Copies of the first process; see [`Config::copied`].
    pub copy: u8,
    /// Processes that end without a word, with what they hold and wait for.
    pub die: u8,
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
        copy: 0,
        die: 0,
    };

    /// Returns the sum of both budgets.
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
            copy: self.copy + other.copy,
            die: self.die + other.die,
        }
    }
}

/// The limit of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wait {
    /// Waits until the lock is granted.
    Forever,
    /// Tries once.
    Once,
    /// Waits for at most this long.
    For(Duration),
}

/// One acquire of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Want {
    /// The owner within the process. The same owner re-enters.
    pub owner: u64,
    /// The options of the lease.
    pub terms: TermValues,
    /// The limit of its wait.
    pub wait: Wait,
    /// `true` if its guard is released explicitly instead of dropped.
    pub by_hand: bool,
    /// The part of a pool, if this is an acquire of a permit. All acquires of a search are, or none is.
    pub share: Option<Share>,
    /// `true` if the weight of its permit may be lowered to 1 while it is held.
    pub lowers: bool,
}

impl Want {
    /// Creates an acquire by this owner with a lease of the usual length.
    #[must_use]
    pub const fn of(owner: u64) -> Self {
        let (share, lowers) = (None, false);
        Self { owner, terms: LONG, wait: Wait::Forever, by_hand: false, share, lowers }
    }

    /// Creates an acquire with a short lease.
    #[must_use]
    pub const fn short(owner: u64) -> Self {
        Self { terms: SHORT, ..Self::of(owner) }
    }

    /// Creates an acquire with a short lease without a watchdog.
    #[must_use]
    pub const fn fixed(owner: u64) -> Self {
        Self { terms: FIXED, ..Self::of(owner) }
    }

    /// Creates an acquire of a permit of a pool, with a short lease.
    #[must_use]
    pub const fn permit(weight: u32, limit: u32) -> Self {
        Self { share: Some(Share { weight, limit }), ..Self::short(1) }
    }

    /// Allows that the weight of its permit is lowered to 1 while it is held, as a writer becomes a reader.
    #[must_use]
    pub const fn lowering(self) -> Self {
        Self { lowers: true, ..self }
    }

    /// Allows this many hand-offs of the lease, within a second.
    #[must_use]
    pub const fn passing(self, passes: u32) -> Self {
        let hand_off = HandOffBudget { passes, within: HAND_OFF };
        Self { terms: TermValues { hand_off, ..self.terms }, ..self }
    }

    /// Keeps the name taken for this long, even after the guard is released. The time may be at most the lease less an
    /// operation timeout, since a grant may be answered that late.
    #[must_use]
    pub const fn at_least(self, min_hold: Duration) -> Self {
        Self { terms: TermValues { min_hold, ..self.terms }, ..self }
    }

    /// Releases its guard explicitly.
    #[must_use]
    pub const fn by_hand(self) -> Self {
        Self { by_hand: true, ..self }
    }

    /// Limits its wait.
    #[must_use]
    pub const fn wait(self, wait: Wait) -> Self {
        Self { wait, ..self }
    }
}

/// 10 s, renewed every 3 s. A request takes at most 1 s.
pub(crate) const LONG: TermValues = terms(10_000, 3_000);
/// 4 s, renewed every 1.2 s.
const SHORT: TermValues = terms(4_000, 1_200);
/// 4 s, not renewed.
const FIXED: TermValues = TermValues { keep: Keep::Fixed, ..SHORT };

/// The time after the store's grant in which a lease may be handed off.
const HAND_OFF: Duration = Duration::from_secs(1);

/// The operation timeout.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);

const fn terms(lease: u64, every: u64) -> TermValues {
    TermValues {
        poll_interval: Duration::from_secs(5),
        lease: Duration::from_millis(lease),
        keep: Keep::Renewed { every: Duration::from_millis(every) },
        operation_timeout: TIMEOUT,
        margin: Duration::from_millis(200),
        // No waiter is refused because of an outage: an unlimited wait is granted or dropped here.
        outage_budget: Duration::from_secs(100_000),
        max_hold: None,
        min_hold: Duration::ZERO,
        token_floor: None,
        retention: Retention::Backend,
        hand_off: HandOffBudget { passes: 0, within: Duration::ZERO },
        share: None,
    }
}

/// A search.
#[derive(Debug, Clone)]
pub struct Config {
    /// The acquires of each process's application, in this order. Each may happen at any time.
    pub scripts: Vec<Vec<Want>>,
    /// The number of scripts, at the end, of processes that begin as copies of the first one.
    pub copies: usize,
    /// The faults.
    pub budget: Budget,
    /// The time after which there are no faults and application steps. Afterwards the world only runs to its end.
    pub horizon: Duration,
    /// The amount by which the first process's clock is slow, in millionths.
    pub slow_clock: u64,
    /// The error of the first process's estimate of the server's clock until the first answer, in µs.
    pub wrong_estimate: i64,
    /// `true` if a plain acquire may be executed again after it was answered, which the contract of a backend
    /// forbids.
    pub resends_answered: bool,
    /// `true` if the name was used before. Only then can a grant at the beginning reserve tokens.
    pub used_before: bool,
    /// `true` to require more than is promised: no waiter sleeps much longer than the lease for which it waits, even if
    /// that lease ends without a release, or than a free permit because another waiter of its process asks instead.
    pub punctual: bool,
    /// The only promise to check, which shows that it can be broken at all.
    pub only: Option<Law>,
    /// The planted bug.
    pub bug: Option<PlantedBug>,
}

impl Config {
    /// Creates a search without faults.
    #[must_use]
    pub fn new(scripts: &[&[Want]], horizon: Duration) -> Self {
        Self {
            scripts: scripts.iter().map(|script| script.to_vec()).collect(),
            copies: 0,
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

    /// Allows one copy of the first process, with all its state, at any moment at which it holds and requests nothing.
    /// Both continue with its script.
    #[must_use]
    pub fn copied(mut self) -> Self {
        self.scripts.push(self.scripts[0].clone());
        (self.copies, self.budget.copy) = (1, 1);
        self
    }

    /// Allows these faults.
    #[must_use]
    pub fn faults(self, budget: Budget) -> Self {
        Self { budget, ..self }
    }

    /// Plants this bug.
    #[must_use]
    pub fn with(self, bug: PlantedBug) -> Self {
        Self { bug: Some(bug), ..self }
    }

    pub(crate) fn has(&self, bug: PlantedBug) -> bool {
        self.bug == Some(bug)
    }

    /// Returns `true` if the acquires are those of permits.
    pub(crate) fn is_pool(&self) -> bool {
        self.scripts[0].first().is_some_and(|want| want.share.is_some())
    }

    /// Returns the smallest and the largest limit of the pool; that of a lock is 1.
    pub(crate) fn limits(&self) -> (u32, u32) {
        let limits = || self.scripts.iter().flatten().map(|want| want.share.map_or(1, |share| share.limit));
        (limits().min().unwrap_or(1), limits().max().unwrap_or(1))
    }

    /// Returns the sum of all minimum holds, which lengthen the waits.
    pub(crate) fn min_holds(&self) -> Duration {
        self.scripts.iter().flatten().map(|want| want.terms.min_hold).sum()
    }
}
