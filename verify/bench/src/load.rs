//! The load of a measurement: tasks that acquire and release locks in cycles.

use crate::{
    Result,
    contestants::{Lock, Locks},
    machine::{nanos, now},
    sections::Section,
};
use serde::{Deserialize, Serialize};
use std::{hint::spin_loop, sync::Arc, time::Duration};
use tokio::time::sleep;

/// The cycles of one process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Load {
    pub(crate) tasks: usize,
    pub(crate) names: Names,
    pub(crate) work: Work,
    /// Time between a release and the next acquire of the same task.
    pub(crate) pause: Duration,
    /// Time during which cycles are measured.
    pub(crate) window: Duration,
}

/// The names of the locks.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Names {
    /// One name for all tasks of all processes.
    Shared,
    /// This many names per process. Each task cycles through them, starting at a different one.
    Own(usize),
}

/// The work that is done under the lock.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Work {
    Nothing,
    /// Computes without a pause.
    Spin(Duration),
    /// Waits without computing.
    Sleep(Duration),
}

impl Load {
    /// Creates a load without work in which each task has its own name.
    pub(crate) fn uncontended(tasks: usize, window: Duration) -> Self {
        Self { tasks, names: Names::Own(tasks), work: Work::Nothing, pause: Duration::ZERO, window }
    }

    /// Creates a load in which all tasks use one name.
    pub(crate) fn contended(tasks: usize, work: Work, window: Duration) -> Self {
        Self { tasks, names: Names::Shared, work, pause: Duration::ZERO, window }
    }

    /// Returns the locks that a process uses.
    pub(crate) fn locks<L: Locks>(&self, locks: &L, process: usize) -> Result<Arc<[L::Lock]>> {
        match self.names {
            Names::Shared => Ok(Arc::new([locks.lock("shared")?])),
            Names::Own(count) => {
                (0..count).map(|number| locks.lock(&format!("own:{process}:{number}"))).collect()
            }
        }
    }

    /// Returns the number that identifies a name in the records of all processes.
    fn name(&self, process: usize, number: usize) -> u64 {
        match self.names {
            Names::Shared => 0,
            Names::Own(count) => (process * count + number) as u64,
        }
    }
}

/// Runs the cycles of one task until `end`, and returns them.
pub(crate) async fn cycle<L: Lock>(
    load: Load,
    locks: Arc<[L]>,
    process: usize,
    task: usize,
    end: u64,
) -> Result<Vec<Section>> {
    let mut sections = Vec::new();
    let (mut number, mut asked) = (task, now());
    while asked < end {
        number %= locks.len();
        let lock = &locks[number];
        let held = lock.acquire().await?;
        let enter = now();
        load.work.perform(enter).await;
        let leave = now();
        let token = L::token(&held).unwrap_or_default();
        lock.release(held).await?;
        let done = now();
        let name = load.name(process, number);
        sections.push(Section { process: 0, task: task as u64, name, token, asked, enter, leave, done });
        number += load.tasks;
        asked = done;
        if !load.pause.is_zero() {
            sleep(load.pause).await;
            asked = now();
        }
    }
    Ok(sections)
}

impl Work {
    async fn perform(self, began: u64) {
        match self {
            Self::Nothing => {}
            Self::Spin(time) => {
                while now() < began + nanos(time) {
                    spin_loop();
                }
            }
            Self::Sleep(time) => sleep(time).await,
        }
    }
}
