//! The options of a lock, the limits of a factory, their validation, and the terms of a lease that result from it.

use crate::{
    backend::{Retention, Share},
    ids::FencingToken,
};
use std::{fmt, ops::Deref, sync::Arc, time::Duration};

/// Options for a lock: the length of its lease, its renewal, and its timeouts.
///
/// | option | default | meaning |
/// | --- | --- | --- |
/// | [`lease`](Self::lease) | 30 s, renewed | the longest time for which the store keeps the lock after this process dies |
/// | [`fixed_lease`](Self::fixed_lease) | – | a lease that is not renewed: the hold ends with it |
/// | [`renew_every`](Self::renew_every) | a third of the lease | the interval of the watchdog |
/// | [`operation_timeout`](Self::operation_timeout) | a tenth of the lease, at most 3 s | the timeout of one request to the store |
/// | [`margin`](Self::margin) | 1 % of the lease + 2 ms | the time by which the local deadline precedes the end of the lease |
/// | [`outage_budget`](Self::outage_budget) | one lease | the time for which backend failures are tolerated before a waiting acquire fails with `Unavailable` |
/// | [`poll_interval`](Self::poll_interval) | 30 s | the interval at which a waiter retries without a wake-up |
/// | [`max_hold`](Self::max_hold) | none | the time after which a hold ends despite renewals |
/// | [`min_hold`](Self::min_hold) | none | the time for which the lock stays taken, even if it is released earlier |
/// | [`token_floor`](Self::token_floor) | none | a fencing token that the new one must exceed |
/// | [`hand_off`](Self::hand_off) | 256 times, 40 ms | the budget for handing over a lease within this process |
/// | [`retention`](Self::retention) | the backend's default | the time for which the store keeps the fencing counter of an unused name |
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
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct LockOptions {
    lease: Duration,
    fixed: bool,
    renew_every: Option<Duration>,
    operation_timeout: Option<Duration>,
    margin: Option<Duration>,
    outage_budget: Option<Duration>,
    poll_interval: Duration,
    max_hold: Option<Duration>,
    min_hold: Duration,
    token_floor: Option<FencingToken>,
    retention: Retention,
    hand_off: HandOffBudget,
}

const DEFAULT_HAND_OFF: HandOffBudget = HandOffBudget { passes: 256, within: Duration::from_millis(40) };

/// The longest lease that a factory can accept: ten years.
const LEASE_FOR_EVER: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);
/// The shortest interval of renewals and polls. With a shorter one, the library would do little but send requests.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(1);
/// The default operation timeout grows with the lease up to this limit: after an attempt whose outcome is unknown, a
/// name is blocked for one timeout, regardless of its lease.
const MAX_DEFAULT_TIMEOUT: Duration = Duration::from_secs(3);
/// With less than a second, a counter could expire while its server's clock is being set; with more than 100 years, a
/// store may reject the expiry.
const MIN_RETENTION: Duration = Duration::from_secs(1);
const MAX_RETENTION: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);
/// Tokens end at 2⁵³, in the year 2255; the last ten years before that are left for the tokens after the floor.
const HIGHEST_FLOOR: FencingToken = FencingToken::new((1 << 53) - LEASE_FOR_EVER.as_secs() * 1_000_000);

impl LockOptions {
    /// The shortest lease. With a shorter one, the margins would leave no time to work.
    pub const MIN_LEASE: Duration = Duration::from_millis(100);

    /// Creates the default options.
    pub const fn new() -> Self {
        Self {
            lease: Duration::from_secs(30),
            fixed: false,
            renew_every: None,
            operation_timeout: None,
            margin: None,
            outage_budget: None,
            poll_interval: Duration::from_secs(30),
            max_hold: None,
            min_hold: Duration::ZERO,
            token_floor: None,
            retention: Retention::Backend,
            hand_off: DEFAULT_HAND_OFF,
        }
    }

    /// Sets the length of the lease, which the watchdog renews; rounded down to whole milliseconds.
    ///
    /// With a shorter lease, others can continue sooner after a crash, but renewals are more frequent.
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self.fixed = false;
        self
    }

    /// Sets the length of a lease that is not renewed: the hold is lost when it expires. A re-entry does not extend
    /// it, unless it asks for a longer one.
    pub const fn fixed_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self.fixed = true;
        self
    }

    /// Sets the interval at which the watchdog renews the lease, counted from when the last successful renewal was
    /// sent. To share a request with other locks' renewals, it may renew up to a quarter of the interval earlier.
    pub const fn renew_every(mut self, interval: Duration) -> Self {
        self.renew_every = Some(interval);
        self
    }

    /// Sets the timeout of one request to the store; at most a tenth of the lease. The default is a tenth of the
    /// lease, and 3 s for leases above 30 s: after an outage, this time determines how soon a lock is usable again.
    pub const fn operation_timeout(mut self, timeout: Duration) -> Self {
        self.operation_timeout = Some(timeout);
        self
    }

    /// Sets the time by which the local deadline precedes the end of the lease. It covers clocks that run at different
    /// speeds and rounding by the store; raise it where clocks are slewed by more than 1 %.
    pub const fn margin(mut self, margin: Duration) -> Self {
        self.margin = Some(margin);
        self
    }

    /// Sets the time for which the store may fail before a waiting acquire fails with
    /// [`Unavailable`](crate::LockErrorKind::Unavailable).
    pub const fn outage_budget(mut self, budget: Duration) -> Self {
        self.outage_budget = Some(budget);
        self
    }

    /// Sets the longest time between two attempts of a waiting acquire; 30 s by default, at least 10 ms. A release
    /// wakes waiters with a message, so this is a safety net for lost messages. A waiter whose subscription is not
    /// acknowledged retries at least every 5 s. A store that cannot push is polled at least every 250 ms.
    ///
    /// Set it to 5 s if a name is shared with Redisson's spin or fair locks, which free the lock without that message.
    /// Do not share a name with Redisson's read-write locks: they can be acquired while this library holds the name.
    pub const fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = interval;
        self
    }

    /// Sets the time after which a hold ends, so that a hung holder does not keep a lock forever. It is counted from
    /// when the granted acquire was sent; re-entries do not change it. It must be longer than the operation timeout
    /// (3 s by default), or a hold could end before the reply that grants it arrives.
    pub const fn max_hold(mut self, most: Duration) -> Self {
        self.max_hold = Some(most);
        self
    }

    /// Returns the value of [`max_hold`](Self::max_hold), if set.
    #[must_use]
    pub const fn chosen_max_hold(&self) -> Option<Duration> {
        self.max_hold
    }

    /// Sets the time for which the lock stays taken, counted from the grant, even if its guards are released earlier;
    /// none by default, at most one lease. With it, a short job that every process tries at the same time runs once,
    /// even if the processes' clocks differ: choose a time above that difference and below the job's period.
    ///
    /// A release before that time ends the hold immediately, and returns
    /// [`StillHeld { depth: 0 }`](crate::ReleaseOutcome::StillHeld); the factory frees the lock when the time has
    /// passed, even if the work failed or panicked, or its future was dropped. If the process ends or the factory is
    /// [shut down](crate::LockFactory::shutdown) before that time, the lock stays taken until its lease expires. A
    /// forced release frees the lock earlier, and so does a store that loses its data. A fixed lease, which begins in
    /// the store, ends before that time if the process heard late of the grant. Re-entries do not change the time. Such
    /// a lock is not handed over within the process, and its owner must wait like any other. Every grant counts: a lock
    /// that a [set](crate::set) acquired before the set gave up also stays taken.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lock_core::{LockFactory, MemoryBackend};
    /// use std::time::Duration;
    ///
    /// let locks = LockFactory::new(MemoryBackend::new());
    /// let report = locks.named("report")?;
    /// let report = report.with_options(report.options().min_hold(Duration::from_secs(10)))?;
    /// assert!(report.try_run(async |_| "sent").await?.is_some());
    /// assert!(report.try_run(async |_| "sent").await?.is_none(), "within 10 s it runs nowhere else");
    /// # Ok(()) }
    /// ```
    pub const fn min_hold(mut self, least: Duration) -> Self {
        self.min_hold = least;
        self
    }

    pub(crate) const fn chosen_lease(&self) -> Duration {
        self.lease
    }

    pub(crate) const fn is_fixed(&self) -> bool {
        self.fixed
    }

    /// Sets a token that the hold's token must exceed, to continue a sequence that a store has lost. A re-entry draws
    /// no token: it fails with [`InvalidOptions`](crate::LockErrorKind::InvalidOptions) if its hold's token does not
    /// exceed the floor.
    ///
    /// A floor ahead of the store's clock, in microseconds, puts the subsequent tokens ahead of it as well. Until the
    /// clock has caught up, they increase only as long as the store keeps its data. The floor must be more than ten
    /// years, in microseconds, below 2⁵³.
    pub const fn token_floor(mut self, floor: FencingToken) -> Self {
        self.token_floor = Some(floor);
        self
    }

    /// Sets how long the store keeps the lock's fencing counter after a grant: from 1 s to 100 years, or forever. By
    /// default, the backend's own retention applies. The first grant in each eighth of it renews the expiry.
    ///
    /// A short retention is suitable for names that are used only once, such as order IDs. Tokens keep increasing after
    /// a counter has expired, since they follow the store's clock.
    pub const fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// Sets the budget for handing over a lease within this process: at most `passes` times in a row and only for
    /// `within` after the store granted it, whichever ends first. The default is 256 times and 40 ms; zero for
    /// either disables hand-offs.
    ///
    /// When a guard is released while another task of this process waits for the same lock with equal options, the
    /// waiter gets the lease with the next fencing token and without a request to the store. Such a release returns
    /// [`HandedOn`](crate::ReleaseOutcome::HandedOn). Each acquire reserves at most 256 tokens for this, so a
    /// contended process sends one request for up to 257 holds.
    ///
    /// A larger budget makes a contended lock faster but keeps other processes waiting longer. When the budget is spent
    /// and another process is subscribed to the lock, this process pauses for 10 ms to let the others go first. Fixed
    /// leases, holds whose renewal failed, and holds that end within an operation timeout are never handed over.
    ///
    /// Source: Dice, Marathe, Shavit, *Lock Cohorting*, PPoPP 2012.
    pub const fn hand_off(mut self, passes: u32, within: Duration) -> Self {
        self.hand_off = HandOffBudget { passes, within };
        self
    }

    /// Returns the options for extending a lease of these terms to `lease`. The margin grows with the lease.
    pub(crate) fn extension(terms: &Terms, lease: Duration) -> Self {
        let factor = (lease.as_secs_f64() / terms.lease.as_secs_f64()).max(1.0);
        Self {
            lease,
            fixed: true,
            renew_every: None,
            operation_timeout: Some(terms.operation_timeout.min(lease / 10)),
            margin: Some(terms.margin.mul_f64(factor)),
            outage_budget: Some(terms.outage_budget),
            poll_interval: terms.poll_interval,
            max_hold: terms.max_hold,
            min_hold: Duration::ZERO,
            token_floor: terms.token_floor,
            retention: terms.retention,
            hand_off: terms.hand_off,
        }
    }

    /// Checks that the options do not contradict each other. Every function that takes options does this.
    ///
    /// # Errors
    /// An [`OptionsError`] that names the violated relation and says what to change.
    pub fn check(&self) -> Result<(), OptionsError> {
        self.terms().map(drop)
    }

    pub(crate) fn terms(&self) -> Result<Terms, OptionsError> {
        let lease = whole_millis(self.lease);
        if lease < Self::MIN_LEASE {
            return Err(OptionsError::lease_too_short(lease));
        }
        let operation_timeout = self.operation_timeout.unwrap_or((lease / 10).min(MAX_DEFAULT_TIMEOUT));
        let margin = self.margin.unwrap_or(lease / 100 + Duration::from_millis(2));
        let every = self.renew_every.unwrap_or(lease / 3);
        let outage_budget = self.outage_budget.unwrap_or(lease);
        let least = [
            ("renew_every", every, SHORTEST_INTERVAL),
            ("operation_timeout", operation_timeout, SHORTEST_TIMEOUT),
            ("outage_budget", outage_budget, SHORTEST_TIMEOUT),
            ("poll_interval", self.poll_interval, SHORTEST_INTERVAL),
            ("max_hold", self.max_hold.unwrap_or(Duration::MAX), SHORTEST_TIMEOUT),
        ];
        if let Some((option, _, least)) = least.into_iter().find(|(_, value, least)| value < least) {
            return Err(OptionsError::too_short(option, least));
        }
        if operation_timeout > lease / 10 {
            let most = lease / 10;
            return Err(OptionsError::new(format!(
                "an operation timeout of {operation_timeout:?} exceeds a tenth of the lease: use at most {most:?}, or a \
                 longer lease"
            )));
        }
        // This leaves time for a second renewal after one that is sent on time and fails: the pause before it is
        // shorter than an operation timeout.
        let twice = operation_timeout.saturating_mul(2);
        let needed = if self.fixed { operation_timeout } else { every.saturating_add(twice) };
        let valid = lease.saturating_sub(margin);
        if valid <= needed {
            return Err(OptionsError::new(format!(
                "the lease minus its margin ({valid:?}) must exceed {needed:?}, which is the renewal interval plus two \
                 operation timeouts, or one timeout for a fixed lease: renew more often, shorten the margin or \
                 the timeout, or use a longer lease"
            )));
        }
        // With less, a hold could end before the reply that grants it arrives.
        if let Some(max_hold) = self.max_hold.filter(|max_hold| *max_hold <= operation_timeout) {
            return Err(OptionsError::new(format!(
                "a `max_hold` of {max_hold:?} may elapse before the grant arrives: use more than the operation timeout \
                 ({operation_timeout:?}), or a shorter `operation_timeout`"
            )));
        }
        // After a crash, only the lease keeps the lock taken.
        if self.min_hold > lease {
            return Err(OptionsError::new(format!(
                "a `min_hold` of {:?} would end early if the process died: use at most the lease ({lease:?}), or a longer \
                 lease",
                self.min_hold
            )));
        }
        if let Some(floor) = self.token_floor.filter(|floor| *floor >= HIGHEST_FLOOR) {
            return Err(OptionsError::new(format!(
                "a token floor of {floor} leaves too few tokens above it: use a floor below {HIGHEST_FLOOR}"
            )));
        }
        let keep = if self.fixed { Keep::Fixed } else { Keep::Renewed { every } };
        if let Retention::For(retention) = self.retention
            && !(MIN_RETENTION..=MAX_RETENTION).contains(&retention)
        {
            return Err(OptionsError::new(format!(
                "a retention of {retention:?} is out of range: use {MIN_RETENTION:?} to {MAX_RETENTION:?}, or \
                 `Retention::Forever`"
            )));
        }
        let Self { poll_interval, max_hold, min_hold, token_floor, retention, hand_off, .. } = *self;
        Ok(Terms::from(TermValues {
            lease,
            keep,
            operation_timeout,
            margin,
            outage_budget,
            poll_interval,
            max_hold,
            min_hold,
            token_floor,
            retention,
            hand_off,
            share: None,
        }))
    }

    /// Adds the lease, and each option that differs from its default.
    pub(crate) fn debug_fields(&self, text: &mut fmt::DebugStruct<'_, '_>) {
        text.field(if self.fixed { "fixed_lease" } else { "lease" }, &self.lease);
        let default = Self::new();
        let chosen = |value, default| Some(value).filter(|value| *value != default);
        let intervals = [
            ("renew_every", self.renew_every),
            ("operation_timeout", self.operation_timeout),
            ("margin", self.margin),
            ("outage_budget", self.outage_budget),
            ("poll_interval", chosen(self.poll_interval, default.poll_interval)),
            ("max_hold", self.max_hold),
            ("min_hold", chosen(self.min_hold, default.min_hold)),
        ];
        for (option, interval) in intervals {
            if let Some(interval) = interval {
                text.field(option, &interval);
            }
        }
        if let Some(floor) = &self.token_floor {
            text.field("token_floor", floor);
        }
        if self.retention != default.retention {
            text.field("retention", &self.retention);
        }
        if self.hand_off != default.hand_off {
            text.field("hand_off", &self.hand_off);
        }
    }
}

impl Default for LockOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for LockOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("LockOptions");
        self.debug_fields(&mut text);
        text.finish_non_exhaustive()
    }
}

/// The limits of a factory. A call that exceeds one fails with [`TooManyWaiters`](crate::LockErrorKind::TooManyWaiters)
/// or [`InvalidOptions`](crate::LockErrorKind::InvalidOptions).
///
/// | limit | default |
/// | --- | --- |
/// | [`waiters_per_name`](Self::waiters_per_name) | 10,000 |
/// | [`waiters`](Self::waiters) | 100,000 |
/// | [`max_lease`](Self::max_lease) | 24 h |
/// | [`max_wait`](Self::max_wait) | 24 h |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Limits {
    pub(crate) waiters_per_name: usize,
    pub(crate) waiters: usize,
    pub(crate) max_lease: Duration,
    pub(crate) max_wait: Duration,
}

impl Limits {
    /// Creates the default limits.
    pub const fn new() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self { waiters_per_name: 10_000, waiters: 100_000, max_lease: DAY, max_wait: DAY }
    }

    /// Sets the maximum number of acquires in progress for one name in this factory.
    pub const fn waiters_per_name(mut self, most: usize) -> Self {
        self.waiters_per_name = most;
        self
    }

    /// Sets the maximum number of acquires in progress in this factory, waiting or trying.
    pub const fn waiters(mut self, most: usize) -> Self {
        self.waiters = most;
        self
    }

    /// Sets the longest lease that options may request; at most ten years.
    pub const fn max_lease(mut self, most: Duration) -> Self {
        self.max_lease = most;
        self
    }

    /// Sets the longest wait of [`acquire_timeout`](crate::Lock::acquire_timeout).
    pub const fn max_wait(mut self, most: Duration) -> Self {
        self.max_wait = most;
        self
    }

    pub(crate) fn check_wait(&self, wait: Duration) -> Result<(), OptionsError> {
        match self.max_wait {
            most if wait > most => Err(OptionsError::new(format!(
                "a wait of {wait:?} exceeds the limit: use at most {most:?}, or raise `max_wait`"
            ))),
            _ => Ok(()),
        }
    }

    pub(crate) fn check(&self) -> Result<(), OptionsError> {
        let limits = [("waiters_per_name", self.waiters_per_name), ("waiters", self.waiters)];
        if let Some((option, _)) = limits.into_iter().find(|(_, most)| *most == 0) {
            return Err(OptionsError::new(format!("`{option}` is zero: set it to a positive value")));
        }
        if self.max_lease < LockOptions::MIN_LEASE {
            return Err(OptionsError::lease_too_short(self.max_lease));
        }
        if self.max_lease > LEASE_FOR_EVER {
            return Err(OptionsError::lease_too_long(self.max_lease, LEASE_FOR_EVER));
        }
        Ok(())
    }

    pub(crate) fn terms(&self, options: &LockOptions) -> Result<Terms, OptionsError> {
        let terms = options.terms()?;
        match terms.lease > self.max_lease {
            true => Err(OptionsError::lease_too_long(terms.lease, self.max_lease)),
            false => Ok(terms),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::new()
    }
}

/// Options that contradict each other or exceed a bound. Its text names the option and says what to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionsError(String);

impl OptionsError {
    #[doc(hidden)]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn too_short(option: &str, least: Duration) -> Self {
        Self(format!("`{option}` is too short: use at least {least:?}"))
    }

    fn lease_too_short(lease: Duration) -> Self {
        Self(format!("a lease of {lease:?} is too short: use at least {:?}", LockOptions::MIN_LEASE))
    }

    fn lease_too_long(lease: Duration, most: Duration) -> Self {
        Self(format!(
            "a lease of {lease:?} exceeds the limit set by `max_lease`, the store or the library: use at most {most:?}"
        ))
    }
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OptionsError {}

/// A shared handle to validated options.
///
/// Entries, events, commands and requests each carry one, so that a clone only increments a counter. Two handles are
/// equal if their values are equal; identical handles are compared by address alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Terms(Arc<TermValues>);

/// The values behind [`Terms`], created by [`LockOptions`](crate::LockOptions), whose documentation explains each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TermValues {
    /// The time for which the store keeps the lease without renewal, in whole milliseconds.
    pub lease: Duration,
    /// The renewal of the lease.
    pub keep: Keep,
    /// The timeout of one operation of the backend.
    pub operation_timeout: Duration,
    /// The time by which the local deadline precedes the end of the lease.
    pub margin: Duration,
    /// The time for which backend failures are tolerated before a waiting acquire fails.
    pub outage_budget: Duration,
    /// The longest time between two attempts of a waiter with a subscription.
    pub poll_interval: Duration,
    /// The time after which a hold ends despite renewals.
    pub max_hold: Option<Duration>,
    /// The time after the grant for which the lock stays taken, even if it is released earlier; zero for none.
    pub min_hold: Duration,
    /// The token that the hold's token must exceed.
    pub token_floor: Option<FencingToken>,
    /// The time for which the fencing counter is kept after the grant.
    pub retention: Retention,
    /// The budget for handing over a lease within this process.
    pub hand_off: HandOffBudget,
    /// The part of the pool, if the hold is a permit.
    pub share: Option<Share>,
}

impl Terms {
    /// Returns these terms for a permit with this part of a pool.
    pub(crate) fn with_share(&self, share: Share) -> Self {
        Self::from(TermValues { share: Some(share), ..**self })
    }

    /// Returns `true` if a hold's token exceeds the floor of these terms.
    pub(crate) fn allow(&self, token: FencingToken) -> bool {
        self.token_floor.is_none_or(|floor| token > floor)
    }
}

impl From<TermValues> for Terms {
    fn from(values: TermValues) -> Self {
        Self(Arc::new(values))
    }
}

impl Deref for Terms {
    type Target = TermValues;
    fn deref(&self) -> &TermValues {
        &self.0
    }
}

/// The budget for handing over a lease between waiters of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HandOffBudget {
    /// The maximum number of consecutive hand-offs; 0 disables them.
    pub passes: u32,
    /// The time after the store's grant during which hand-offs are allowed.
    pub within: Duration,
}

/// The way in which a lease is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Keep {
    /// Renewed by the watchdog at this interval.
    Renewed {
        /// The time between sending the last successful request and the next renewal.
        every: Duration,
    },
    /// Not renewed: the hold ends with the lease.
    Fixed,
}

fn whole_millis(d: Duration) -> Duration {
    Duration::from_millis(u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

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
        assert_eq!(terms.poll_interval, secs(30));
        let nightly = LockOptions::new().lease(secs(24 * 60 * 60)).terms().unwrap();
        assert_eq!(nightly.operation_timeout, secs(3), "an outage must not block a name for hours");
        assert!(
            LockOptions::new().lease(LockOptions::MIN_LEASE).check().is_ok(),
            "the shortest lease fits its own defaults"
        );
    }

    #[test]
    fn contradictory_options_are_refused_with_a_remedy() {
        let o = LockOptions::new();
        let cases = [
            (o.lease(Duration::ZERO), "at least 100ms"),
            (o.fixed_lease(Duration::from_millis(99)), "at least 100ms"),
            (o.renew_every(Duration::ZERO), "`renew_every` is too short"),
            (o.operation_timeout(Duration::ZERO), "`operation_timeout` is too short"),
            (o.outage_budget(Duration::ZERO), "`outage_budget` is too short"),
            (o.max_hold(Duration::ZERO), "`max_hold` is too short"),
            (o.operation_timeout(secs(4)), "at most 3s"),
            (o.poll_interval(Duration::ZERO), "`poll_interval` is too short"),
            (o.max_hold(secs(3)), "or a shorter `operation_timeout`"),
            (o.min_hold(secs(31)), "use at most the lease (30s)"),
            (o.retention(Retention::For(Duration::ZERO)), "use 1s to"),
            (o.retention(Retention::For(Duration::MAX)), "or `Retention::Forever`"),
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
    fn options_show_what_was_chosen() {
        let o = LockOptions::new();
        assert_eq!(format!("{o:?}"), "LockOptions { lease: 30s, .. }");
        assert_eq!(format!("{:?}", o.poll_interval(secs(30)).min_hold(Duration::ZERO)), format!("{o:?}"));
        let chosen = o
            .fixed_lease(secs(5))
            .margin(secs(1))
            .hand_off(0, Duration::ZERO)
            .token_floor(FencingToken::new(7));
        for shown in ["fixed_lease: 5s", "margin: 1s", "token_floor: ", "hand_off: "] {
            assert!(format!("{chosen:?}").contains(shown), "{chosen:?}");
        }
        // Each other option is shown as well.
        let others = [
            o.renew_every(secs(1)),
            o.operation_timeout(secs(1)),
            o.outage_budget(secs(1)),
            o.poll_interval(secs(1)),
            o.max_hold(secs(60)),
            o.min_hold(secs(1)),
            o.retention(Retention::Forever),
        ];
        for other in others {
            assert_ne!(format!("{other:?}"), format!("{o:?}"));
        }
    }

    #[test]
    fn options_are_checked_against_the_limits() {
        let limits = Limits::new().max_lease(secs(60));
        assert!(limits.terms(&LockOptions::new().lease(secs(60))).is_ok());
        let error = limits.terms(&LockOptions::new().lease(secs(61))).unwrap_err().to_string();
        assert!(error.starts_with("a lease of 61s") && error.ends_with("at most 60s"), "{error}");
        assert!(Limits::new().waiters(0).check().is_err());
    }
}
