//! All shop processes of a sale: they start together, and none is left, on whatever path the sale ends.

use super::{Job, link::ShopProcess};
use crate::sale::SaleError;
use std::{
    path::Path,
    sync::Arc,
    thread::sleep,
    time::{Duration, Instant},
};

/// How long processes may take to give back their locks when a sale is given up.
const GRACE: Duration = Duration::from_secs(2);
/// How long the system may take to end a process that was killed.
const BURIAL: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);

/// Processes that end, at the latest, when this is dropped.
#[derive(Debug, Default)]
pub(in crate::sale) struct Processes {
    all: Vec<Arc<ShopProcess>>,
}

impl Processes {
    /// Starts a process for each job, and returns when all of them can sell.
    pub(in crate::sale) async fn start(
        jobs: impl Iterator<Item = Job>,
        database: &Path,
    ) -> Result<Self, SaleError> {
        let (mut started, mut waiting) = (Self::default(), Vec::new());
        for job in jobs {
            let process = ShopProcess::spawn(job.shop, database)?;
            started.all.push(Arc::clone(&process));
            waiting.push((process, job));
        }
        // Their jobs first, then the waiting: they open side by side.
        let opening: Vec<_> = waiting
            .into_iter()
            .map(|(process, job)| tokio::spawn(async move { process.open(&job).await }))
            .collect();
        for open in opening {
            open.await.map_err(SaleError::Task)??;
        }
        Ok(started)
    }

    pub(in crate::sale) fn shops(&self) -> impl Iterator<Item = Arc<ShopProcess>> {
        self.all.iter().cloned()
    }
}

impl Drop for Processes {
    /// Waits, and blocks its thread meanwhile, mostly for a few milliseconds: what comes after may remove the database
    /// or end this program, and neither may happen under a shop that works.
    fn drop(&mut self) {
        for (patience, kill) in [(GRACE, false), (BURIAL, true)] {
            let end = Instant::now() + patience;
            // `retain` looks at every process, also after one that is not gone.
            while !self.all.is_empty() && Instant::now() < end {
                self.all.retain(|process| {
                    process.hang_up();
                    !process.is_gone(kill)
                });
                sleep(LOOK);
            }
        }
    }
}
