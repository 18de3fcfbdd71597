//! The row of a lock, to which the store rules are applied.

use crate::retention::RETENTION;
use lock_core::{
    __private::{Held, Slot, TokenCounter},
    backend::{
        Acquired, Applied, BackendError, BackendErrorKind, ForceReleaseRequest, ForceReleased, Inspected,
        LeaseId, NotifyWaiters, Operation, Outcome, Released, StoredHold,
    },
    clock::UtcTime,
};
use serde_json::{Value, json};
use sqlx::{FromRow, Row as _, sqlite::SqliteRow};

/// The columns, in the order in which they are read and written.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) name: String,
    lease: Option<String>,
    depth: i64,
    expires_ms: i64,
    first: i64,
    last: Option<i64>,
    keep_ms: Option<i64>,
    freed: i64,
}

/// The record of a lock.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Row {
    slot: Slot,
    /// The first token of the last grant.
    first: u64,
    /// Grows with each release that wakes waiters: the time of the last one, in microseconds, or more.
    freed: i64,
}

impl FromRow<'_, SqliteRow> for Stored {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            name: row.try_get(0)?,
            lease: row.try_get(1)?,
            depth: row.try_get(2)?,
            expires_ms: row.try_get(3)?,
            first: row.try_get(4)?,
            last: row.try_get(5)?,
            keep_ms: row.try_get(6)?,
            freed: row.try_get(7)?,
        })
    }
}

impl Stored {
    /// Returns the record.
    ///
    /// # Errors
    /// [`BackendErrorKind::WrongType`] if another program has written the row.
    pub(super) fn row(&self) -> Result<Row, BackendError> {
        let held = match &self.lease {
            None => None,
            Some(lease) => Some(Held {
                lease: LeaseId::parse(lease).ok_or_else(|| not_a_lock(&self.name))?,
                depth: u32::try_from(self.depth).map_err(|_| not_a_lock(&self.name))?,
                expires_ms: unsigned(self.expires_ms),
            }),
        };
        let counter = self
            .last
            .map(|last| TokenCounter { last: unsigned(last), expires_ms: self.keep_ms.map(unsigned) });
        Ok(Row { slot: Slot { held, counter }, first: unsigned(self.first), freed: self.freed })
    }
}

impl Row {
    /// Returns the columns as JSON.
    pub(super) fn columns(&self, name: &str) -> Value {
        let Slot { held, counter } = &self.slot;
        json!([
            name,
            held.as_ref().map(|held| held.lease.to_string()),
            held.as_ref().map_or(0, |held| held.depth),
            held.as_ref().map_or(0, |held| signed(held.expires_ms)),
            signed(self.first),
            counter.as_ref().map(|counter| signed(counter.last)),
            counter.as_ref().and_then(|counter| counter.expires_ms).map(signed),
            self.freed,
        ])
    }

    pub(super) fn freed(&self) -> i64 {
        self.freed
    }

    /// Applies an operation.
    pub(super) fn apply(&mut self, now: UtcTime, operation: &Operation) -> Outcome {
        match operation {
            Operation::Acquire(r) => {
                let retention = r.retention.unless(Some(RETENTION));
                let acquired =
                    self.slot.acquire(now, r.lease, r.duration, r.not_after, r.mode.clone(), retention);
                if let Acquired::Granted { first, .. } = acquired {
                    self.first = first.get();
                }
                acquired.into()
            }
            Operation::Renew(r) => self.slot.renew(now, r.lease, r.duration, r.not_after).into(),
            Operation::Release(r) => {
                let released = self.slot.release(now, r.lease, r.depth_left);
                if matches!(released, Released::Released { .. }) && r.notify != NotifyWaiters::No {
                    self.wake(now);
                }
                released.into()
            }
        }
    }

    /// Frees the lock if the holder that was seen still has it.
    pub(super) fn force_release(&mut self, now: UtcTime, r: &ForceReleaseRequest) -> ForceReleased {
        let released = self.slot.force_release(now, &r.seen);
        if released == ForceReleased::Released {
            self.wake(now);
        }
        released
    }

    pub(super) fn inspect(mut self, now: UtcTime) -> Inspected {
        match self.slot.inspect(now) {
            None => Inspected::Free,
            Some((lease, depth, remaining)) => {
                Inspected::Held(StoredHold { lease: lease.to_string(), depth, remaining: Some(remaining) })
            }
        }
    }

    fn wake(&mut self, now: UtcTime) {
        self.freed = micros(now).max(self.freed.saturating_add(1));
    }
}

fn not_a_lock(name: &str) -> BackendError {
    let message = format!("the row `{name}` of distlock_lock is not a lock: delete it");
    BackendError::new(BackendErrorKind::WrongType, Applied::No, message)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Returns a time as a column has it.
pub(super) fn millis(time: UtcTime) -> i64 {
    signed(time.as_millis())
}

pub(super) fn micros(time: UtcTime) -> i64 {
    signed(time.as_micros())
}
