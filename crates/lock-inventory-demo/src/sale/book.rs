//! What buyers were told, counted as it happens.

use crate::{
    domain::{Answer, Order, OrderNumber, Outcome},
    progress::Progress,
};
use hdrhistogram::Histogram;
use std::{
    collections::BTreeSet,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// All answers of one sale.
#[derive(Debug)]
pub(super) struct Book {
    tally: Mutex<Tally>,
    progress: Progress,
}

/// The sums.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) answered: u64,
    pub(super) accepted: BTreeSet<OrderNumber>,
    pub(super) sold_out: u64,
    pub(super) stale: u64,
    pub(super) waits: Histogram<u64>,
}

/// Waits are told apart from 1 µs on; longer ones than this count as this.
const LONGEST_WAIT_MICROS: u64 = 600_000_000;

impl Tally {
    fn new() -> Self {
        let waits = Histogram::new_with_bounds(1, LONGEST_WAIT_MICROS, 3).expect("the bounds are constants");
        Self { answered: 0, accepted: BTreeSet::new(), sold_out: 0, stale: 0, waits }
    }
}

impl Book {
    pub(super) fn new(progress: Progress) -> Self {
        Self { tally: Mutex::new(Tally::new()), progress }
    }

    /// A buyer was told `answer`.
    pub(super) fn note(&self, order: &Order, answer: Answer) {
        let answered = {
            let mut tally = self.tally();
            tally.answered += 1;
            match answer.outcome {
                Outcome::Accepted => {
                    tally.accepted.insert(order.number);
                }
                Outcome::SoldOut => tally.sold_out += 1,
                Outcome::Stale => tally.stale += 1,
            }
            if let Some(waited) = answer.waited {
                tally.waits.saturating_record(u64::try_from(waited.as_micros()).unwrap_or(u64::MAX));
            }
            tally.answered
        };
        self.progress.answered(answered);
    }

    /// The orders that buyers were told are accepted.
    pub(super) fn accepted(&self) -> BTreeSet<OrderNumber> {
        self.tally().accepted.clone()
    }

    /// No more answers: the sums.
    pub(super) fn close(&self) -> Tally {
        self.progress.finish();
        mem::replace(&mut *self.tally(), Tally::new())
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
