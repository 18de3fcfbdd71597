//! Faults that a shop inflicts on itself inside of a critical section, between its read and its write. They come at an exact
//! place, so that a run with a fault shows the same each time.

use serde::{Deserialize, Serialize};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{sync::Semaphore, time::sleep};

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The process stops itself with SIGSTOP. A supervisor has to send SIGCONT: a stopped process cannot.
    Pause,
    /// The database call after the payment takes longer.
    Stall,
}

/// A fault, and for how many sections it is armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Its kind.
    pub kind: FaultKind,
    /// The length of a stall, in milliseconds: at most a minute. A pause ends with SIGCONT.
    #[serde(default)]
    pub millis: u64,
    /// Whether only the next section is struck; otherwise all are, until another fault is armed.
    #[serde(default)]
    pub once: bool,
}

/// The longest stall.
const MAX_STALL: Duration = Duration::from_secs(60);

/// A barrier that stops sections until it is opened.
#[derive(Debug)]
pub struct Gate {
    arrived: Semaphore,
    open: Semaphore,
}

impl Default for Gate {
    fn default() -> Self {
        Self { arrived: Semaphore::new(0), open: Semaphore::new(0) }
    }
}

impl Gate {
    /// Waits until so many sections have arrived.
    pub async fn arrived(&self, sections: u32) {
        let _ = self.arrived.acquire_many(sections).await;
    }

    /// Lets all sections go on, also those to come.
    pub fn open(&self) {
        self.open.close();
    }

    async fn pass(&self) {
        self.arrived.add_permits(1);
        let _ = self.open.acquire().await;
    }
}

#[derive(Debug, Clone)]
enum Armed {
    Fault(Fault),
    Gate(Arc<Gate>),
}

/// The faults of a shop. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    armed: Arc<Mutex<Option<Armed>>>,
}

impl Faults {
    /// Faults that stop each section at this gate.
    #[must_use]
    pub fn gate(gate: Arc<Gate>) -> Self {
        Self { armed: Arc::new(Mutex::new(Some(Armed::Gate(gate)))) }
    }

    /// Arms a fault in the place of the one that is armed. A stall of 0 ms disarms.
    pub fn arm(&self, fault: Fault) {
        let none = fault.kind == FaultKind::Stall && fault.millis == 0;
        *self.armed.lock().unwrap_or_else(PoisonError::into_inner) = (!none).then_some(Armed::Fault(fault));
    }

    /// Strikes the caller, if a fault is armed.
    pub(crate) async fn strike(&self) {
        match self.next() {
            None => {}
            Some(Armed::Gate(gate)) => gate.pass().await,
            Some(Armed::Fault(Fault { kind: FaultKind::Stall, millis, .. })) => {
                sleep(Duration::from_millis(millis).min(MAX_STALL)).await;
            }
            Some(Armed::Fault(Fault { kind: FaultKind::Pause, .. })) => stop_process(),
        }
    }

    fn next(&self) -> Option<Armed> {
        let mut armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        match &*armed {
            Some(Armed::Fault(fault)) if fault.once => armed.take(),
            other => other.clone(),
        }
    }
}

/// How long a signal to this process may take until it has stopped the thread that sent it.
#[cfg(unix)]
const TAKES_EFFECT: Duration = Duration::from_millis(100);

/// Stops all threads of this process, at once.
#[cfg(unix)]
fn stop_process() {
    use rustix::process::{Signal, getpid, kill_process};
    if let Err(error) = kill_process(getpid(), Signal::STOP) {
        tracing::error!(%error, "this process cannot stop itself");
    }
    // Another thread may take the signal. This one must not go on to its write before it stands still as well: stopped in the
    // middle of a transaction it would keep SQLite's lock.
    std::thread::sleep(TAKES_EFFECT);
}

#[cfg(not(unix))]
fn stop_process() {
    tracing::error!("only a Unix process can stop itself");
}
