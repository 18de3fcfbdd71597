//! Sections of several locks, with one task per lock, until the process is stopped.

use super::Failure;
use crate::{
    fenced::FencedTable,
    line::{Order, Report, SectionEnd, now},
    node::Orders,
    referee::Witness,
};
use lock_core::{Lock, LockFactory};
use lock_testkit::{Seed, Stream};
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinSet;

/// The settings of the tasks.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    pub(super) pause: Duration,
    pub(super) takes: Duration,
    pub(super) fence: Option<PathBuf>,
    pub(super) seed: Seed,
}

/// Runs the tasks, and ends with the first error of an acquire. Reports follow at the end, so that they do not affect
/// the measurements.
pub(super) async fn run(
    locks: &LockFactory,
    names: &[String],
    terms: Terms,
    witness: Option<(Witness, Duration)>,
    orders: &mut Orders,
) -> Result<(), Failure> {
    let (over, mut running) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
    for (number, name) in names.iter().enumerate() {
        let table = match &terms.fence {
            Some(folder) => Some(FencedTable::open(&folder.join(name)).await?),
            None => None,
        };
        let task = Task { lock: locks.named(name)?, terms: terms.clone(), table, witness: witness.clone() };
        let random = Seed::new(terms.seed.get() ^ number as u64).stream();
        running.spawn(task.work(random, over.clone()));
    }
    Report::Ready.say();
    let mut sections = Vec::new();
    loop {
        tokio::select! {
            () = orders.wait_for(&Order::Stop) => over.store(true, Ordering::Relaxed),
            done = running.join_next() => match done {
                Some(done) => sections.extend(done??),
                None => break,
            },
        }
    }
    sections.iter().for_each(Report::say);
    Report::Done { sections: sections.len() }.say();
    Ok(())
}

struct Task {
    lock: Lock,
    terms: Terms,
    table: Option<FencedTable>,
    witness: Option<(Witness, Duration)>,
}

impl Task {
    async fn work(self, mut random: Stream, over: Arc<AtomicBool>) -> Result<Vec<Report>, Failure> {
        let longest = u64::try_from(2 * self.terms.pause.as_micros())?;
        let mut sections = Vec::new();
        while !over.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_micros(random.below(longest))).await;
            sections.push(self.section().await?);
        }
        Ok(sections)
    }

    async fn section(&self) -> Result<Report, Failure> {
        let asked = now();
        let guard = self.lock.acquire().await?;
        let (at, token) = (now(), guard.fencing_token());
        let inside = self.witness.as_ref().map(|(witness, lease)| witness.enters(guard.hold(), *lease / 20));
        let mut before = None;
        if let Some(table) = &self.table {
            before = table.read(token).await?;
        }
        if !self.terms.takes.is_zero() {
            tokio::time::sleep(self.terms.takes).await;
        }
        let accepted = match (&self.table, before) {
            (Some(table), Some(before)) => table.write(token, before + 1).await?,
            _ => false,
        };
        drop(inside);
        let end = match guard.release().await {
            Ok(outcome) if outcome.was_held() => SectionEnd::Released,
            Ok(_) => SectionEnd::Lost,
            Err(_) => SectionEnd::Failed,
        };
        let lock = self.lock.name().to_string();
        Ok(Report::Section { lock, token: token.get(), asked, at, end, accepted })
    }
}
