//! The row of a pool, to which the rules of pools are applied. It has the whole record of the pool as JSON.

use crate::retention::RETENTION;
use lock_core::{
    __private::{Pool, Ruling, reserved_name},
    LockName,
    backend::{
        Applied, BackendError, BackendErrorKind, ForceReleaseRequest, ForceReleased, Inspected, Operation,
        Outcome,
    },
    clock::UtcTime,
};

/// The beginning of the names of pools, and of no name of a user's lock.
pub(crate) const RESERVED: &str = "distlock:";

/// The milliseconds for which the row of an empty pool is kept.
const EMPTY_FOR: u64 = 60_000;

/// The record of a pool.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PoolRow {
    pool: Pool,
    /// Grows when waiters are woken: the time of the last wake-up, in microseconds, or more. So a row that is written again
    /// after its deletion does not repeat a number.
    freed: i64,
}

impl PoolRow {
    /// Reads the columns.
    ///
    /// # Errors
    /// [`BackendErrorKind::WrongType`] if another program has written the row.
    pub(crate) fn read(name: &str, state: &str, freed: i64) -> Result<Self, BackendError> {
        let pool = serde_json::from_str(state).map_err(|error| {
            let message = format!("the row `{name}` of distlock_pool is not a pool: delete it");
            BackendError::new(BackendErrorKind::WrongType, Applied::No, message).with_source(error)
        })?;
        Ok(Self { pool, freed })
    }

    /// Returns the record as JSON.
    pub(crate) fn state(&self) -> String {
        // Its keys are texts, and its values numbers, so there is nothing that JSON cannot have.
        serde_json::to_string(&self.pool).unwrap_or_default()
    }

    pub(crate) fn freed(&self) -> i64 {
        self.freed
    }

    /// Returns the millisecond after which the row may be deleted; `None` for never.
    pub(crate) fn expires_ms(&self, now: UtcTime) -> Option<i64> {
        let Pool { holders, queue, counter } = &self.pool;
        let permits = holders.values().chain(queue.iter().map(|(_, permit)| permit));
        let ends = permits.map(|permit| permit.ends_ms).max().unwrap_or(now.as_millis() + EMPTY_FOR);
        let kept = counter.as_ref().map_or(Some(0), |counter| counter.expires_ms)?;
        Some(signed(ends.max(kept)))
    }

    /// Applies an operation.
    pub(crate) fn apply(&mut self, now: UtcTime, operation: &Operation) -> Outcome {
        let ruling = self.pool.execute(now, operation, Some(RETENTION));
        self.outcome(now, ruling)
    }

    /// Ends the permit or the place that was seen.
    pub(crate) fn force_release(&mut self, now: UtcTime, r: &ForceReleaseRequest) -> ForceReleased {
        let ruling = self.pool.force_release(now, &r.seen);
        self.outcome(now, ruling)
    }

    pub(crate) fn inspect(mut self, now: UtcTime) -> Inspected {
        Inspected::Pool(self.pool.inspect(now))
    }

    fn outcome<T>(&mut self, now: UtcTime, Ruling { outcome, wakes }: Ruling<T>) -> T {
        if wakes {
            self.freed = signed(now.as_micros()).max(self.freed.saturating_add(1));
        }
        outcome
    }
}

/// Reads a stored name, also a reserved one.
pub(crate) fn stored_name(text: &str) -> Option<LockName> {
    match text.strip_prefix(RESERVED) {
        Some(rest) => reserved_name(rest).ok(),
        None => LockName::new(text).ok(),
    }
}

/// Reads a name for a list, which shows pools, but no other reserved names.
pub(crate) fn listed_name(text: &str) -> Option<LockName> {
    stored_name(text).filter(|name| name.is_pool() || !text.starts_with(RESERVED))
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
