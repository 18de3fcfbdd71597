//! The limits of a factory.

use super::{LEASE_FOR_EVER, LockOptions, OptionsError};
use crate::terms::Terms;
use std::time::Duration;

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
            most if wait > most => Err(OptionsError::WaitTooLong { wait, most }),
            _ => Ok(()),
        }
    }

    pub(crate) fn check(&self) -> Result<(), OptionsError> {
        let limits = [("waiters_per_name", self.waiters_per_name), ("waiters", self.waiters)];
        if let Some((option, _)) = limits.into_iter().find(|(_, most)| *most == 0) {
            return Err(OptionsError::Zero { option });
        }
        if self.max_lease < LockOptions::MIN_LEASE {
            let least = LockOptions::MIN_LEASE;
            return Err(OptionsError::LeaseTooShort { lease: self.max_lease, least });
        }
        if self.max_lease > LEASE_FOR_EVER {
            return Err(OptionsError::LeaseTooLong { lease: self.max_lease, most: LEASE_FOR_EVER });
        }
        Ok(())
    }

    pub(crate) fn terms(&self, options: &LockOptions) -> Result<Terms, OptionsError> {
        let terms = options.terms()?;
        match terms.lease > self.max_lease {
            true => Err(OptionsError::LeaseTooLong { lease: terms.lease, most: self.max_lease }),
            false => Ok(terms),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::new()
    }
}
