//! Faults that a shop injects into its own critical sections, between the read and the write. The
//! exact position makes runs with injected faults reproducible.

use serde::{Deserialize, Serialize};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{sync::Semaphore, time::sleep};

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The process suspends itself with SIGSTOP. A supervisor must send SIGCONT to resume it.
    Pause,
    /// The database call after the payment is delayed.
    Stall,
}

/// A fault to inject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Kind of the fault.
    pub kind: FaultKind,
    /// Length of a stall in milliseconds, at most a minute. Ignored for a pause, which ends with
    /// SIGCONT.
    #[serde(default)]
    pub millis: u64,
    /// `true` if only the next section is affected. Otherwise all sections are affected until
    /// another fault is armed.
    #[serde(default)]
    pub once: bool,
}

/// The longest stall.
const MAX_STALL: Duration = Duration::from_secs(60);

/// A gate that stops critical sections until it is opened.
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
    /// Waits until this many sections have arrived.
    pub async fn arrived(&self, sections: u32) {
        let _ = self.arrived.acquire_many(sections).await;
    }

    /// Lets all sections continue, including later ones.
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

/// The faults to inject into a shop. Clones share the state.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    armed: Arc<Mutex<Option<Armed>>>,
}

impl Faults {
    /// Creates faults that stop every section at this gate.
    #[must_use]
    pub fn gate(gate: Arc<Gate>) -> Self {
        Self { armed: Arc::new(Mutex::new(Some(Armed::Gate(gate)))) }
    }

    /// Arms a fault, replacing the current one. A stall of 0 ms only removes the current one.
    pub fn arm(&self, fault: Fault) {
        let none = fault.kind == FaultKind::Stall && fault.millis == 0;
        *self.armed.lock().unwrap_or_else(PoisonError::into_inner) = (!none).then_some(Armed::Fault(fault));
    }

    /// Injects the armed fault, if any, into the calling section.
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

/// Time within which a stop signal takes effect on the thread that sent it.
#[cfg(unix)]
const TAKES_EFFECT: Duration = Duration::from_millis(100);

/// Stops all threads of this process immediately.
#[cfg(unix)]
fn stop_process() {
    use rustix::process::{Signal, getpid, kill_process};
    if let Err(error) = kill_process(getpid(), Signal::STOP) {
        tracing::error!(%error, "failed to suspend this process");
    }
    // Another thread may handle the signal first. This thread must not continue to its write before
    // it is stopped: stopped in the middle of a transaction, it would keep SQLite's lock.
    std::thread::sleep(TAKES_EFFECT);
}

#[cfg(not(unix))]
fn stop_process() {
    tracing::error!("cannot suspend this process: SIGSTOP is available only on Unix");
}
