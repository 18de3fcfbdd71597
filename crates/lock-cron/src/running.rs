//! The runs in progress on this node, and the hold of each: the lease of its claim in the ledger, measured by this
//! node's clock.
//!
//! ```text
//!   held until "sent + lease − margin" ──the clock passes it──▶ lost: expired
//!        ▲        │  └────────────the ledger no longer has it──▶ lost: gone
//!        └─renewed┘
//! ```
//!
//! Invariants: a lost hold stays lost; the deadline never decreases; it is never later than the end
//! of the lease in the store, because `sent` is the moment before the request to which the store
//! replied.

use lock_core::{
    __private::lock,
    LockName, LostReason,
    clock::{Clock, Moment},
};
use lock_ledger::{ClaimId, RunId, RunRenewal};
use std::{
    collections::BTreeMap,
    future::{Future, poll_fn},
    pin::pin,
    sync::{Arc, Mutex},
    task::Poll,
    time::Duration,
};
use tokio::{sync::watch, time::sleep};

/// The maximum sleep. Timers stop while the machine is suspended.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// The hold of one attempt of a run. Clones refer to the same hold.
#[derive(Debug, Clone)]
pub(crate) struct RunHold {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    clock: Arc<dyn Clock>,
    lease: Duration,
    state: watch::Sender<State>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Until(Moment),
    Lost(LostReason),
}

impl RunHold {
    /// Creates the hold of a claim that was granted by the request sent at this moment.
    pub(crate) fn new(clock: Arc<dyn Clock>, sent: Moment, lease: Duration) -> Self {
        let state = watch::Sender::new(State::Until(deadline(sent, lease)));
        Self { shared: Arc::new(Shared { clock, lease, state }) }
    }

    /// Extends the hold after a renewal that was sent at this moment.
    pub(crate) fn renewed(&self, sent: Moment) {
        if self.look().is_err() {
            return;
        }
        let later = deadline(sent, self.shared.lease);
        self.shared.state.send_if_modified(|state| match state {
            State::Until(before) if *before < later => {
                *before = later;
                true
            }
            _ => false,
        });
    }

    /// Ends the hold as lost: the ledger no longer has the claim.
    pub(crate) fn gone(&self) {
        self.lose(LostReason::Gone);
    }

    /// Returns `true` if the hold is valid now. Checks the clock and does no IO.
    pub(crate) fn is_held(&self) -> bool {
        self.look().is_ok()
    }

    /// Returns the time for which the hold stays valid without a further renewal; zero if it is lost.
    pub(crate) fn remaining(&self) -> Duration {
        self.look().unwrap_or_default()
    }

    /// Completes when the hold is lost. Checks the clock at every poll, and sets its own timer.
    pub(crate) async fn lost(&self) -> LostReason {
        let mut changed = self.shared.state.subscribe();
        loop {
            let left = match self.look() {
                Ok(left) => left,
                Err(reason) => return reason,
            };
            let mut wait = pin!(async {
                tokio::select! {
                    _ = changed.changed() => {}
                    () = sleep(left.min(MAX_SLEEP)) => {}
                }
            });
            poll_fn(|cx| if self.is_held() { wait.as_mut().poll(cx) } else { Poll::Ready(()) }).await;
        }
    }

    fn look(&self) -> Result<Duration, LostReason> {
        let state = *self.shared.state.borrow();
        match state {
            State::Lost(reason) => Err(reason),
            State::Until(deadline) => match deadline.since(self.shared.clock.now()) {
                Duration::ZERO => Err(self.lose(LostReason::Expired)),
                left => Ok(left),
            },
        }
    }

    /// Marks the hold as lost. The first reason is kept.
    fn lose(&self, reason: LostReason) -> LostReason {
        let mut first = reason;
        self.shared.state.send_if_modified(|state| match *state {
            State::Lost(before) => {
                first = before;
                false
            }
            State::Until(_) => {
                *state = State::Lost(reason);
                true
            }
        });
        first
    }
}

/// Returns the local deadline. The margin is that of a lock: 1 % of the lease and 2 ms.
fn deadline(sent: Moment, lease: Duration) -> Moment {
    sent + (lease - (lease / 100 + Duration::from_millis(2)).min(lease))
}

/// A run of a job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RunKey {
    pub(crate) job: LockName,
    pub(crate) run: RunId,
}

/// The reason why a body must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CancelReason {
    /// The scheduler is shutting down.
    Shutdown,
    /// A later run replaces this one.
    Replaced,
    /// A command cancelled it.
    Cancelled,
}

impl CancelReason {
    /// Returns the reason for the history.
    pub(crate) fn detail(self) -> &'static str {
        match self {
            Self::Shutdown => "the scheduler shut down",
            Self::Replaced => "a later run replaced it",
            Self::Cancelled => "it was cancelled",
        }
    }
}

/// Receives the reason why a run must end.
#[derive(Debug, Clone)]
pub(crate) struct CancelSignal(watch::Receiver<Option<CancelReason>>);

impl CancelSignal {
    /// Completes when the run must end.
    pub(crate) async fn cancelled(mut self) -> CancelReason {
        let reason = self.0.wait_for(Option::is_some).await.map(|reason| *reason);
        // If the sender is gone, so is the scheduler.
        reason.ok().flatten().unwrap_or(CancelReason::Shutdown)
    }
}

/// The claim of an attempt and its lease.
#[derive(Debug, Clone)]
pub(crate) struct HeldClaim {
    pub(crate) claim: ClaimId,
    pub(crate) hold: RunHold,
}

/// A run with a lease to renew.
#[derive(Debug, Clone)]
pub(crate) struct HeldRun {
    pub(crate) key: RunKey,
    pub(crate) held: HeldClaim,
}

/// The runs of this node, from the claim to the recorded end.
#[derive(Debug, Default)]
pub(crate) struct RunningRuns {
    runs: Mutex<BTreeMap<RunKey, Entry>>,
}

#[derive(Debug)]
struct Entry {
    /// The latest claimed attempt.
    held: HeldClaim,
    cancel: watch::Sender<Option<CancelReason>>,
}

impl RunningRuns {
    /// Adds a run, which stays until [`remove`](Self::remove).
    pub(crate) fn add(&self, key: RunKey, held: HeldClaim) -> CancelSignal {
        let (cancel, cancelled) = watch::channel(None);
        lock(&self.runs).insert(key, Entry { held, cancel });
        CancelSignal(cancelled)
    }

    /// Replaces the attempt of a run with the next one.
    pub(crate) fn follow(&self, key: &RunKey, held: HeldClaim) {
        if let Some(entry) = lock(&self.runs).get_mut(key) {
            entry.held = held;
        }
    }

    pub(crate) fn remove(&self, key: &RunKey) {
        lock(&self.runs).remove(key);
    }

    /// Asks the bodies of matching runs to end. The first reason is kept.
    pub(crate) fn cancel(&self, which: impl Fn(&RunKey) -> bool, reason: CancelReason) {
        for (_, entry) in lock(&self.runs).iter().filter(|(key, _)| which(key)) {
            entry.cancel.send_if_modified(|now| {
                let first = now.is_none();
                now.get_or_insert(reason);
                first
            });
        }
    }

    /// Lists the runs with a lease to renew.
    pub(crate) fn to_renew(&self) -> Vec<HeldRun> {
        let runs = lock(&self.runs);
        runs.iter().map(|(key, entry)| HeldRun { key: key.clone(), held: entry.held.clone() }).collect()
    }

    /// Handles the replies to a renewal of these runs that was sent at this moment. Each attempt
    /// has its own hold, so a reply for an earlier attempt does not affect the next one.
    pub(crate) fn renewed(&self, sent: Moment, runs: &[HeldRun], answers: &[RunRenewal]) {
        for (HeldRun { key, held }, answer) in runs.iter().zip(answers) {
            match answer {
                RunRenewal::Renewed => held.hold.renewed(sent),
                RunRenewal::Replaced => {
                    held.hold.renewed(sent);
                    self.cancel(|of| of == key, CancelReason::Replaced);
                }
                RunRenewal::Cancelled => {
                    held.hold.renewed(sent);
                    self.cancel(|of| of == key, CancelReason::Cancelled);
                }
                _ => held.hold.gone(),
            }
        }
    }

    pub(crate) fn has(&self, key: &RunKey) -> bool {
        lock(&self.runs).contains_key(key)
    }

    pub(crate) fn count(&self) -> usize {
        lock(&self.runs).len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.runs).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lock_core::clock::TestClock;
    use tokio::time::{Instant, advance, timeout};

    const LEASE: Duration = Duration::from_secs(30);

    fn hold() -> (Arc<TestClock>, RunHold) {
        let clock = Arc::new(TestClock::new());
        let hold = RunHold::new(clock.clone(), clock.now(), LEASE);
        (clock, hold)
    }

    #[tokio::test(start_paused = true)]
    async fn hold_is_lost_before_its_lease_ends() {
        let (_, hold) = hold();
        let begin = Instant::now();
        assert_eq!(hold.lost().await, LostReason::Expired);
        let after = begin.elapsed();
        assert!(after < LEASE && after > LEASE - Duration::from_millis(400), "{after:?}");
        assert_eq!((hold.is_held(), hold.remaining()), (false, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn renewal_counts_from_its_sending_and_revives_no_hold() {
        let (clock, hold) = hold();
        advance(Duration::from_secs(20)).await;
        let sent = clock.now();
        advance(Duration::from_secs(5)).await;
        hold.renewed(sent);
        advance(Duration::from_secs(24)).await;
        assert!(hold.is_held());
        let sent = clock.now();
        advance(Duration::from_secs(1)).await;
        assert!(!hold.is_held(), "sent at 20 s, ended at 50 s");
        hold.renewed(sent);
        assert!(!hold.is_held(), "a lost hold stays lost");
    }

    #[tokio::test(start_paused = true)]
    async fn hold_gone_from_the_ledger_is_lost_at_once() {
        let (_, hold) = hold();
        let waiting = hold.clone();
        let lost = tokio::spawn(async move { waiting.lost().await });
        tokio::task::yield_now().await;
        hold.gone();
        assert_eq!(
            timeout(Duration::from_millis(1), lost).await.expect("completes immediately").expect("no panic"),
            LostReason::Gone
        );
    }
}
