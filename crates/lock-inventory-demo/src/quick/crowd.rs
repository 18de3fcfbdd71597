//! The buyers. Each places its next order after the response to the previous one.

use super::{
    QuickError,
    answer::{Answer, place},
    progress::Progress,
};
use crate::domain::{ClientOutcome, Order};
use axum::Router;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::task::JoinSet;

/// The running counts of responses to the buyers.
#[derive(Debug)]
pub(super) struct Journal {
    tally: Mutex<Tally>,
    progress: Progress,
}

/// The final counts.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) answered: u64,
    pub(super) sold_out: u64,
    pub(super) stale: u64,
    pub(super) outcomes: BTreeMap<String, ClientOutcome>,
}

impl Journal {
    pub(super) fn new(progress: Progress) -> Arc<Self> {
        Arc::new(Self { tally: Mutex::default(), progress })
    }

    /// Places an order and counts the response.
    pub(super) async fn place(&self, shop: &Router, order: &Order) -> Result<(), QuickError> {
        let answer = place(shop, order).await?;
        let answered = {
            let mut tally = self.tally();
            tally.answered += 1;
            let outcome = match answer {
                Answer::Accepted => ClientOutcome::Acknowledged,
                Answer::SoldOut | Answer::Stale => ClientOutcome::Refused,
            };
            tally.sold_out += u64::from(answer == Answer::SoldOut);
            tally.stale += u64::from(answer == Answer::Stale);
            tally.outcomes.insert(order.key.to_string(), outcome);
            tally.answered
        };
        self.progress.answered(answered);
        Ok(())
    }

    /// Returns the final counts and ends the progress display.
    pub(super) fn close(&self) -> Tally {
        self.progress.finish();
        std::mem::take(&mut *self.tally())
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the buyers. Order `n` goes to shop `n` modulo the number of shops, as a balancer would send it.
pub(super) fn enter(
    tasks: &mut JoinSet<Result<(), QuickError>>,
    buyers: u32,
    orders: Arc<[Order]>,
    shops: &[Router],
    journal: &Arc<Journal>,
) {
    let shops: Arc<[Router]> = shops.into();
    for buyer in 0..buyers as usize {
        let (orders, shops, journal) = (orders.clone(), shops.clone(), journal.clone());
        tasks.spawn(async move {
            for index in (buyer..orders.len()).step_by(buyers as usize) {
                journal.place(&shops[index % shops.len()], &orders[index]).await?;
            }
            Ok(())
        });
    }
}

/// Waits for all tasks. The first error aborts the others.
pub(super) async fn all(mut tasks: JoinSet<Result<(), QuickError>>) -> Result<(), QuickError> {
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}
