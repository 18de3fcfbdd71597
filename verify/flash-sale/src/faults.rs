//! Faults in the middle of a sale: between the charge and its answer. The exact position makes runs with faults
//! reproducible. They wrap the payment provider, so the shop does not know them.

use async_trait::async_trait;
use lock_inventory_demo::{
    domain::{Cents, OrderKey},
    payments::{Charge, Payment, PaymentError, Payments},
};
use serde::{Deserialize, Serialize};
use sqlx::AnyPool;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::{sleep, timeout};

/// The longest stall.
const MAX_STALL: Duration = Duration::from_secs(60);
/// Time limit for the process's own statements to end before it suspends itself.
const QUIET_WITHIN: Duration = Duration::from_secs(1);
/// Time within which a stop signal takes effect on the thread that sent it.
const TAKES_EFFECT: Duration = Duration::from_millis(100);

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The process suspends itself with SIGSTOP. A supervisor must send SIGCONT to resume it.
    Pause,
    /// The provider's answer is delayed.
    Stall,
}

/// A fault to inject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Kind of the fault.
    pub kind: FaultKind,
    /// Length of a stall in milliseconds, at most a minute. A pause ends with SIGCONT instead.
    #[serde(default)]
    pub millis: u64,
    /// `true` if only the next charge is affected. Otherwise all charges are affected until another fault is armed.
    #[serde(default)]
    pub once: bool,
}

impl Fault {
    /// No fault: it only removes the armed one.
    pub const NONE: Self = Self { kind: FaultKind::Stall, millis: 0, once: true };

    /// The suspension of the process at its next charge.
    pub const PAUSE: Self = Self { kind: FaultKind::Pause, millis: 0, once: true };

    /// Returns a delay of the answer to the next charge.
    #[must_use]
    pub fn stall(length: Duration) -> Self {
        let millis = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        Self { kind: FaultKind::Stall, millis, once: true }
    }

    /// Returns a delay of the answers to all charges.
    #[must_use]
    pub fn stalls(length: Duration) -> Self {
        Self { once: false, ..Self::stall(length) }
    }
}

/// The armed fault of a process. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Mutex<Option<Fault>>>);

impl Faults {
    /// Arms a fault, replacing the current one. A stall of 0 ms only removes the current one.
    pub fn arm(&self, fault: Fault) {
        let is_none = fault.kind == FaultKind::Stall && fault.millis == 0;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (!is_none).then_some(fault);
    }

    /// Returns the fault of the next charge.
    fn next(&self) -> Option<Fault> {
        let mut armed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fault = *armed;
        armed.take_if(|fault| fault.once);
        fault
    }
}

/// A payment provider whose callers are struck by the armed fault after the charge, and before they know of it.
#[derive(Debug)]
pub struct Faulty<P> {
    provider: P,
    faults: Faults,
    pools: Vec<AnyPool>,
}

impl<P> Faulty<P> {
    /// Wraps a provider. `pools` are all connections of this process.
    pub fn new(provider: P, faults: Faults, pools: Vec<AnyPool>) -> Self {
        Self { provider, faults, pools }
    }

    async fn strike(&self) {
        match self.faults.next() {
            None => {}
            Some(Fault { kind: FaultKind::Stall, millis, .. }) => {
                sleep(Duration::from_millis(millis).min(MAX_STALL)).await;
            }
            Some(Fault { kind: FaultKind::Pause, .. }) => self.pause().await,
        }
    }

    /// Suspends this process between two statements. With SQLite, a pool has one connection: whoever has it knows that no
    /// other task of this process is in a transaction, whose lock on the file would stop all shops.
    async fn pause(&self) {
        let mut quiet = Vec::new();
        for pool in &self.pools {
            quiet.push(timeout(QUIET_WITHIN, pool.acquire()).await);
        }
        stop_process();
    }
}

#[async_trait]
impl<P: Payments> Payments for Faulty<P> {
    async fn charge(&self, key: &OrderKey, cents: Cents) -> Result<Charge, PaymentError> {
        let charged = self.provider.charge(key, cents).await;
        self.strike().await;
        charged
    }

    async fn refund(&self, key: &OrderKey) -> Result<(), PaymentError> {
        self.provider.refund(key).await
    }

    async fn statement(&self) -> Result<Vec<Payment>, PaymentError> {
        self.provider.statement().await
    }
}

/// Stops all threads of this process.
fn stop_process() {
    use rustix::process::{Signal, getpid, kill_process};
    if let Err(error) = kill_process(getpid(), Signal::STOP) {
        tracing::error!(%error, "failed to suspend this process");
    }
    // Another thread may handle the signal first. This thread must not go on to its write before it is stopped.
    std::thread::sleep(TAKES_EFFECT);
}
