//! What a caller may choose, and which choices fit together.

use crate::{
    terms::{Keep, Terms},
    token::FencingToken,
};
use std::{fmt, time::Duration};

/// The terms of a lock: how long its lease is, who keeps it, how long things may take.
///
/// | option | default | meaning |
/// | --- | --- | --- |
/// | [`lease`](Self::lease) | 30 s, kept alive | how long the store keeps the lock when this process dies |
/// | [`fixed_lease`](Self::fixed_lease) | – | a lease that nobody renews: the hold ends with it |
/// | [`renew_every`](Self::renew_every) | a third of the lease | the watchdog's interval |
/// | [`operation_timeout`](Self::operation_timeout) | a tenth of the lease | how long one request to the store may take |
/// | [`margin`](Self::margin) | 1 % of the lease + 2 ms | by how much the local deadline precedes the end of the lease |
/// | [`outage_budget`](Self::outage_budget) | one lease | how long the store may fail before a waiter is told |
/// | [`max_hold`](Self::max_hold) | none | when a hold ends although the watchdog could go on |
/// | [`token_floor`](Self::token_floor) | none | a fencing token that the new one must exceed |
///
/// ```
/// use lock_core::LockOptions;
/// use std::time::Duration;
///
/// let quick = LockOptions::new().lease(Duration::from_secs(5)).max_hold(Duration::from_secs(60));
/// assert!(quick.check().is_ok());
///
/// let slow = quick.renew_every(Duration::from_secs(5));
/// assert!(slow.check().unwrap_err().to_string().contains("renew"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct LockOptions {
    lease: Duration,
    fixed: bool,
    renew_every: Option<Duration>,
    operation_timeout: Option<Duration>,
    margin: Option<Duration>,
    outage_budget: Option<Duration>,
    max_hold: Option<Duration>,
    token_floor: Option<FencingToken>,
}

/// The shortest lease: below it, the margins leave no time to work in.
pub const SHORTEST_LEASE: Duration = Duration::from_millis(100);
/// The longest that a factory can be told to accept: ten years.
const LEASE_FOR_EVER: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);
/// Below these, the library would do nothing but renew and give up.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(1);
/// Tokens end at 2⁵³, in the year 2255; the last ten years before that are left to those who come after the floor.
const HIGHEST_FLOOR: FencingToken = FencingToken::new((1 << 53) - LEASE_FOR_EVER.as_secs() * 1_000_000);

impl LockOptions {
    /// The defaults.
    pub const fn new() -> Self {
        Self {
            lease: Duration::from_secs(30),
            fixed: false,
            renew_every: None,
            operation_timeout: None,
            margin: None,
            outage_budget: None,
            max_hold: None,
            token_floor: None,
        }
    }

    /// A lease of this length that the watchdog keeps alive, in whole milliseconds (the rest is cut off).
    ///
    /// Shorter means that others get on sooner after a crash, and more renewals.
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self.fixed = false;
        self
    }

    /// A lease of this length that nobody renews: the hold is lost when it is over. A re-entry does not lengthen it, unless
    /// it asks for a longer one.
    pub const fn fixed_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self.fixed = true;
        self
    }

    /// How often the watchdog renews, counted from the sending of the last renewal that succeeded.
    pub const fn renew_every(mut self, interval: Duration) -> Self {
        self.renew_every = Some(interval);
        self
    }

    /// How long one request to the store may take; at most a tenth of the lease.
    pub const fn operation_timeout(mut self, timeout: Duration) -> Self {
        self.operation_timeout = Some(timeout);
        self
    }

    /// By how much the local deadline precedes the end of the lease. It covers clocks of different speed and
    /// the rounding of the store; raise it where clocks are slewed by more than 1 %.
    pub const fn margin(mut self, margin: Duration) -> Self {
        self.margin = Some(margin);
        self
    }

    /// How long the store may fail before a waiting acquire fails as
    /// [`Unavailable`](crate::ErrorKind::Unavailable).
    pub const fn outage_budget(mut self, budget: Duration) -> Self {
        self.outage_budget = Some(budget);
        self
    }

    /// Ends a hold that lasts longer, so that a hung holder does not keep a lock for ever. Counted from the sending of the
    /// acquire that the store granted; what a re-entry asks for changes nothing.
    pub const fn max_hold(mut self, most: Duration) -> Self {
        self.max_hold = Some(most);
        self
    }

    /// A token that the token of the hold must exceed; for those who continue a sequence that a store has lost. A
    /// re-entry draws no token: it is refused as [`InvalidOptions`](crate::ErrorKind::InvalidOptions) if that of its hold
    /// does not exceed the floor.
    ///
    /// A floor ahead of the store's clock, in microseconds, puts the tokens that follow ahead of it, too. Until the clock has
    /// caught up, they rise only as long as the store keeps its data. At most ten years below 2⁵³.
    pub const fn token_floor(mut self, floor: FencingToken) -> Self {
        self.token_floor = Some(floor);
        self
    }

    /// Whether the choices fit together. Every function that takes options does this.
    ///
    /// # Errors
    /// An [`OptionsError`] that names the relation and says what to change.
    pub fn check(&self) -> Result<(), OptionsError> {
        self.terms().map(drop)
    }

    pub(crate) fn terms(&self) -> Result<Terms, OptionsError> {
        let lease = whole_millis(self.lease);
        if lease < SHORTEST_LEASE {
            return Err(OptionsError::LeaseTooShort { lease });
        }
        let operation_timeout = self.operation_timeout.unwrap_or(lease / 10);
        let margin = self.margin.unwrap_or(lease / 100 + Duration::from_millis(2));
        let every = self.renew_every.unwrap_or(lease / 3);
        let outage_budget = self.outage_budget.unwrap_or(lease);
        let least = [
            ("renew_every", every, SHORTEST_INTERVAL),
            ("operation_timeout", operation_timeout, SHORTEST_TIMEOUT),
            ("outage_budget", outage_budget, SHORTEST_TIMEOUT),
            ("max_hold", self.max_hold.unwrap_or(Duration::MAX), SHORTEST_TIMEOUT),
        ];
        if let Some((option, _, least)) = least.into_iter().find(|(_, value, least)| value < least) {
            return Err(OptionsError::TooShort { option, least });
        }
        if operation_timeout > lease / 10 {
            return Err(OptionsError::OperationTimeoutTooLong { operation_timeout, most: lease / 10 });
        }
        // With this, a renewal that is sent on time and fails leaves time for another: the pause before that is shorter
        // than an operation timeout.
        let twice = operation_timeout.saturating_mul(2);
        let needed = if self.fixed { operation_timeout } else { every.saturating_add(twice) };
        if lease.saturating_sub(margin) <= needed {
            return Err(OptionsError::NoTimeToRenew { valid: lease.saturating_sub(margin), needed });
        }
        if let Some(floor) = self.token_floor.filter(|floor| *floor >= HIGHEST_FLOOR) {
            return Err(OptionsError::FloorTooHigh { floor, most: HIGHEST_FLOOR });
        }
        let keep = if self.fixed { Keep::Fixed } else { Keep::Renewed { every } };
        let (max_hold, token_floor) = (self.max_hold, self.token_floor);
        Ok(Terms { lease, keep, operation_timeout, margin, outage_budget, max_hold, token_floor })
    }
}

impl Default for LockOptions {
    fn default() -> Self {
        Self::new()
    }
}

fn whole_millis(d: Duration) -> Duration {
    Duration::from_millis(u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

/// Finite bounds of a factory; what exceeds them is refused with a typed error.
///
/// | limit | default |
/// | --- | --- |
/// | [`waiters_per_name`](Self::waiters_per_name) | 10,000 |
/// | [`waiters`](Self::waiters) | 100,000 |
/// | [`longest_lease`](Self::longest_lease) | 24 h |
/// | [`longest_wait`](Self::longest_wait) | 24 h |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Limits {
    pub(crate) waiters_per_name: usize,
    pub(crate) waiters: usize,
    pub(crate) longest_lease: Duration,
    pub(crate) longest_wait: Duration,
}

impl Limits {
    /// The defaults.
    pub const fn new() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self { waiters_per_name: 10_000, waiters: 100_000, longest_lease: DAY, longest_wait: DAY }
    }

    /// How many acquires may be under way for one name in this process.
    pub const fn waiters_per_name(mut self, most: usize) -> Self {
        self.waiters_per_name = most;
        self
    }

    /// How many acquires may be under way in this factory, waiting or trying.
    pub const fn waiters(mut self, most: usize) -> Self {
        self.waiters = most;
        self
    }

    /// The longest lease that options may ask for; at most ten years.
    pub const fn longest_lease(mut self, most: Duration) -> Self {
        self.longest_lease = most;
        self
    }

    /// The longest time that [`acquire_timeout`](crate::Lock::acquire_timeout) may be asked to wait.
    pub const fn longest_wait(mut self, most: Duration) -> Self {
        self.longest_wait = most;
        self
    }

    pub(crate) fn check_wait(&self, wait: Duration) -> Result<(), OptionsError> {
        match self.longest_wait {
            most if wait > most => Err(OptionsError::WaitTooLong { wait, most }),
            _ => Ok(()),
        }
    }

    pub(crate) fn check(&self) -> Result<(), OptionsError> {
        let limits = [("waiters_per_name", self.waiters_per_name), ("waiters", self.waiters)];
        if let Some((option, _)) = limits.into_iter().find(|(_, most)| *most == 0) {
            return Err(OptionsError::Zero { option });
        }
        if self.longest_lease < SHORTEST_LEASE {
            return Err(OptionsError::LeaseTooShort { lease: self.longest_lease });
        }
        if self.longest_lease > LEASE_FOR_EVER {
            return Err(OptionsError::LeaseTooLong { lease: self.longest_lease, most: LEASE_FOR_EVER });
        }
        Ok(())
    }

    pub(crate) fn terms(&self, options: &LockOptions) -> Result<Terms, OptionsError> {
        let terms = options.terms()?;
        match terms.lease > self.longest_lease {
            true => Err(OptionsError::LeaseTooLong { lease: terms.lease, most: self.longest_lease }),
            false => Ok(terms),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::new()
    }
}

/// Options that do not fit together.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionsError {
    /// A duration is too short to work with.
    TooShort {
        /// Which.
        option: &'static str,
        /// The bound.
        least: Duration,
    },
    /// A limit is zero.
    Zero {
        /// Which.
        option: &'static str,
    },
    /// The lease is below [`SHORTEST_LEASE`].
    LeaseTooShort {
        /// The lease.
        lease: Duration,
    },
    /// The lease is above what the factory or the backend accepts.
    LeaseTooLong {
        /// The lease.
        lease: Duration,
        /// The bound.
        most: Duration,
    },
    /// One request may take more than a tenth of the lease.
    OperationTimeoutTooLong {
        /// The timeout.
        operation_timeout: Duration,
        /// The bound.
        most: Duration,
    },
    /// lease − margin > renewal interval + two operation timeouts does not hold (of a fixed lease: one operation timeout).
    NoTimeToRenew {
        /// Lease − margin.
        valid: Duration,
        /// Renewal interval + two operation timeouts.
        needed: Duration,
    },
    /// The token floor leaves no room above it.
    FloorTooHigh {
        /// The floor.
        floor: FencingToken,
        /// The bound, which a floor must be below.
        most: FencingToken,
    },
    /// The token of the hold that was to be re-entered does not exceed the token floor.
    FloorAboveHold {
        /// The token of the hold.
        token: FencingToken,
    },
    /// The wait is above what the factory accepts.
    WaitTooLong {
        /// The wait.
        wait: Duration,
        /// The bound.
        most: Duration,
    },
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { option, least } => write!(f, "`{option}` is too short: use at least {least:?}"),
            Self::Zero { option } => write!(f, "`{option}` is zero: give it a positive value"),
            Self::LeaseTooShort { lease } => {
                write!(f, "a lease of {lease:?} leaves no time to work in: use at least {SHORTEST_LEASE:?}")
            }
            Self::LeaseTooLong { lease, most } => {
                write!(
                    f,
                    "a lease of {lease:?} is above the bound: use at most {most:?}, or raise `longest_lease`"
                )
            }
            Self::OperationTimeoutTooLong { operation_timeout, most } => write!(
                f,
                "an operation timeout of {operation_timeout:?} is above a tenth of the lease: use at most {most:?}, \
                 or a longer lease"
            ),
            Self::NoTimeToRenew { valid, needed } => write!(
                f,
                "lease − margin ({valid:?}) does not exceed renewal interval + two operation timeouts ({needed:?}): \
                 renew more often, lower the margin or the timeout, or use a longer lease"
            ),
            Self::FloorTooHigh { floor, most } => {
                write!(f, "a token floor of {floor} leaves too few tokens above it: use one below {most}")
            }
            Self::FloorAboveHold { token } => write!(
                f,
                "the hold has token {token}, and a re-entry draws no other: re-enter with a lower `token_floor`"
            ),
            Self::WaitTooLong { wait, most } => {
                write!(
                    f,
                    "a wait of {wait:?} is above the bound: use at most {most:?}, or raise `longest_wait`"
                )
            }
        }
    }
}

impl std::error::Error for OptionsError {}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn the_defaults_are_as_documented() {
        let terms = LockOptions::new().terms().unwrap();
        assert_eq!((terms.lease, terms.operation_timeout), (secs(30), secs(3)));
        assert_eq!(terms.keep, Keep::Renewed { every: secs(10) });
        assert_eq!(terms.margin, Duration::from_millis(302));
        assert_eq!((terms.outage_budget, terms.max_hold), (secs(30), None));
        assert!(
            LockOptions::new().lease(SHORTEST_LEASE).check().is_ok(),
            "the shortest lease fits its own defaults"
        );
    }

    #[test]
    fn options_that_do_not_fit_are_refused_with_their_cure() {
        let o = LockOptions::new();
        let cases = [
            (o.lease(Duration::ZERO), "at least 100ms"),
            (o.fixed_lease(Duration::from_millis(99)), "at least 100ms"),
            (o.renew_every(Duration::ZERO), "`renew_every` is too short"),
            (o.operation_timeout(Duration::ZERO), "`operation_timeout` is too short"),
            (o.outage_budget(Duration::ZERO), "`outage_budget` is too short"),
            (o.max_hold(Duration::ZERO), "`max_hold` is too short"),
            (o.operation_timeout(secs(4)), "at most 3s"),
            (o.renew_every(secs(27)), "renew more often"),
            (o.renew_every(Duration::MAX), "renew more often"),
            (o.margin(secs(30)), "renew more often"),
            (o.fixed_lease(secs(1)).margin(secs(1)), "renew more often"),
        ];
        for (options, cure) in cases {
            let error = options.check().unwrap_err().to_string();
            assert!(error.contains(cure), "{error} says {cure}");
        }
    }

    #[test]
    fn limits_bind_the_options() {
        let limits = Limits::new().longest_lease(secs(60));
        assert!(limits.terms(&LockOptions::new().lease(secs(60))).is_ok());
        let error = limits.terms(&LockOptions::new().lease(secs(61))).unwrap_err();
        assert_eq!(error, OptionsError::LeaseTooLong { lease: secs(61), most: secs(60) });
        assert!(Limits::new().waiters(0).check().is_err());
    }
}
