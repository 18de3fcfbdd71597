//! The options of an election, and the relations that they must satisfy.

use crate::options::{LockOptions, OptionsError};
use std::time::Duration;

/// The lease of an election by default, as in Kubernetes' `client-go`.
const DEFAULT_LEASE: Duration = Duration::from_secs(15);
/// Below this, a body that fails immediately would keep the store busy with campaigns.
const MIN_DELAY: Duration = Duration::from_millis(10);

/// Options for an [`Election`](super::Election).
///
/// | option | default | meaning |
/// | --- | --- | --- |
/// | [`lease`](Self::lease) | 15 s, renewed every 5 s | the time after which another process can lead if the leader dies |
/// | [`back_off`](Self::back_off) | 1 s to 30 s | the pause between the end of a term and the next campaign |
/// | [`grace`](Self::grace) | zero | the time that a body has to end by itself |
/// | [`lock_options`](Self::lock_options) | the defaults of [`LockOptions`] | all other options of the lock |
///
/// The factory's options do not apply, because they are meant for short holds.
///
/// # Relations
/// These relations are checked when the options are [set](super::Election::with_options):
/// - lease − margin > renewal interval + two operation timeouts, so that a failed renewal leaves time for another;
/// - the lease is renewed, not fixed;
/// - 10 ms ≤ initial delay ≤ maximum delay.
///
/// ```
/// use lock_core::election::ElectionOptions;
/// use std::time::Duration;
///
/// let quick = ElectionOptions::new().lease(Duration::from_secs(5)).grace(Duration::from_secs(2));
/// assert!(quick.check().is_ok());
///
/// let reversed = quick.back_off(Duration::from_secs(60), Duration::from_secs(30));
/// assert!(reversed.check().unwrap_err().to_string().contains("initial delay"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct ElectionOptions {
    pub(super) lock: LockOptions,
    pub(super) initial_delay: Duration,
    pub(super) max_delay: Duration,
    pub(super) grace: Duration,
}

impl ElectionOptions {
    /// Creates the default options.
    pub const fn new() -> Self {
        Self {
            lock: LockOptions::new().lease(DEFAULT_LEASE),
            initial_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(30),
            grace: Duration::ZERO,
        }
    }

    /// Returns the default options, with a lease of at most `max_lease`.
    pub(super) fn within(max_lease: Duration) -> Self {
        Self::new().lease(DEFAULT_LEASE.min(max_lease))
    }

    /// Sets the leader's lease, which the watchdog renews.
    ///
    /// When a leader dies, another process leads within this time plus one second; in etcd and ZooKeeper within the session, which
    /// the URL sets. A shorter lease requires more
    /// frequent renewals, and tolerates only shorter outages of the store.
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lock = self.lock.lease(lease);
        self
    }

    /// Replaces all options of the lock, including its lease.
    pub const fn lock_options(mut self, options: LockOptions) -> Self {
        self.lock = options;
        self
    }

    /// Sets the pause between the end of a term and this process's next campaign, so that other processes can lead.
    ///
    /// After a loss, a resignation or a failed campaign, the pause is `initial_delay`. After a body fails or panics, it
    /// doubles with each such term up to `max_delay`, and is reset after a term that lasted at least `max_delay`. Each
    /// pause is lengthened at random by up to a quarter, but never beyond `max_delay`.
    pub const fn back_off(mut self, initial_delay: Duration, max_delay: Duration) -> Self {
        (self.initial_delay, self.max_delay) = (initial_delay, max_delay);
        self
    }

    /// Sets the time that a body has to end by itself at shutdown, and after
    /// [`Election::resign`](super::Election::resign). A body that has not ended by then is dropped. The lease is
    /// renewed until the body has ended.
    ///
    /// By default a body is dropped immediately. Set a grace period if the body watches
    /// [`Term::stopping`](super::Term::stopping).
    pub const fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Checks that the options are consistent. Every function that takes options does this.
    ///
    /// # Errors
    /// An [`OptionsError`] that names the relation and says what to change.
    pub fn check(&self) -> Result<(), OptionsError> {
        self.lock.check()?;
        if self.lock.is_fixed() {
            return Err(OptionsError::new(
                "a fixed lease would cut every leadership term short: use `lease`, which is renewed",
            ));
        }
        if self.initial_delay < MIN_DELAY {
            return Err(OptionsError::too_short("initial_delay", MIN_DELAY));
        }
        if self.initial_delay > self.max_delay {
            let Self { initial_delay, max_delay, .. } = *self;
            return Err(OptionsError::new(format!(
                "an initial delay of {initial_delay:?} exceeds the maximum delay of {max_delay:?}: lower the initial delay \
                 or raise the maximum"
            )));
        }
        Ok(())
    }
}

impl Default for ElectionOptions {
    fn default() -> Self {
        Self::new()
    }
}
