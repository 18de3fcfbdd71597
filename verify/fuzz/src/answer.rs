//! Answers of the store to the state machine.

use crate::duration::AnyDuration;
use arbitrary::{Arbitrary, Result, Unstructured};
use lock_core::{
    backend::{Applied, Reply},
    clock::UtcTime,
    model::{Failure, WatchAnswer},
};
use std::time::Duration;

/// An answer of the store. Only the fields that fit the request are used.
pub(crate) struct Answer {
    pub(crate) failure: Option<Failure>,
    /// Selects one of the possible outcomes; below 6.
    pub(crate) outcome: u8,
    /// The number of tokens that others drew in the meantime.
    pub(crate) others: u64,
    pub(crate) remaining: Option<Duration>,
    pub(crate) held_by_other: bool,
    pub(crate) listeners: Option<u32>,
}

impl Answer {
    /// A success without other contenders.
    pub(crate) const GOOD: Self =
        Self { failure: None, outcome: 0, others: 0, remaining: None, held_by_other: false, listeners: None };

    pub(crate) fn of<T>(&self, now: UtcTime, outcome: T) -> std::result::Result<Reply<T>, Failure> {
        match self.failure {
            Some(failure) => Err(failure),
            None => Ok(Reply::new(now, outcome)),
        }
    }

    pub(crate) fn watch(&self) -> WatchAnswer {
        if self.failure.is_some() { WatchAnswer::Failed } else { WatchAnswer::Acknowledged }
    }
}

impl<'a> Arbitrary<'a> for Answer {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let failure = if u.ratio(1_u8, 4)? {
            let applied = if u.arbitrary()? { Applied::No } else { Applied::Unknown };
            Some(Failure { applied, retryable: u.ratio(3_u8, 4)? })
        } else {
            None
        };
        Ok(Self {
            failure,
            outcome: u.int_in_range(0..=5)?,
            others: u.int_in_range(0..=2)?,
            remaining: u.arbitrary::<Option<AnyDuration>>()?.map(|AnyDuration(remaining)| remaining),
            held_by_other: u.arbitrary()?,
            listeners: u.arbitrary::<Option<u8>>()?.map(u32::from),
        })
    }
}
