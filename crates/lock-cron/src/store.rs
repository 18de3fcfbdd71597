//! Requests to the run ledger: each has a timeout, and some are repeated until the answer is certain.

use crate::{backoff::Backoff, hold::RunHold, time::UtcTime};
use futures_util::FutureExt;
use lock_core::{
    LockName,
    backend::{Applied, BackendError, BackendErrorKind, Reply},
    clock::{Moment, ServerTime},
};
use lock_ledger::{ClaimReply, ClaimRequest, EndReply, EndRequest, GroupName, JobId, RunLedger};
use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

/// Waits between requests that were not answered.
const WAITS: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));

/// The result of a claim.
pub(crate) struct Claiming {
    pub(crate) answer: Result<Reply<ClaimReply>, BackendError>,
    /// The moment before the request that was answered.
    pub(crate) sent: Moment,
    /// A request of this claim id was not answered, and may still be carried out.
    pub(crate) in_doubt: bool,
}

/// The ledger of one group.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    ledger: Arc<dyn RunLedger>,
    clock: Arc<dyn lock_core::clock::Clock>,
    pub(crate) group: GroupName,
    timeout: Duration,
}

impl Store {
    pub(crate) fn new(
        ledger: Arc<dyn RunLedger>,
        clock: Arc<dyn lock_core::clock::Clock>,
        group: GroupName,
        timeout: Duration,
    ) -> Self {
        Self { ledger, clock, group, timeout }
    }

    /// The server's time, as far as it is known, or else that of this node: it only decides when to ask.
    pub(crate) fn now(&self) -> UtcTime {
        UtcTime::from(self.server_now().unwrap_or_else(|| self.clock.wall()))
    }

    /// The moment now, by which leases are measured.
    pub(crate) fn moment(&self) -> Moment {
        self.clock.now()
    }

    /// The hold of a run whose claim was granted by the request sent at this moment.
    pub(crate) fn hold(&self, sent: Moment, lease: Duration) -> RunHold {
        RunHold::new(self.clock.clone(), sent, lease)
    }

    /// The server's clock. A ledger that panics is one that does not know it.
    fn server_now(&self) -> Option<ServerTime> {
        catch_unwind(AssertUnwindSafe(|| self.ledger.server_now(&self.group))).unwrap_or(None)
    }

    /// The seconds by which the wall clock of this node is ahead.
    pub(crate) fn clock_offset(&self) -> Option<f64> {
        let server = self.server_now()?.as_micros();
        let wall = self.clock.wall().as_micros();
        Some(wall.wrapping_sub(server).cast_signed() as f64 / 1e6)
    }

    pub(crate) fn ledger(&self) -> &dyn RunLedger {
        &*self.ledger
    }

    pub(crate) fn job(&self, name: &LockName) -> JobId {
        JobId { group: self.group.clone(), name: name.clone() }
    }

    /// One request, which is answered or fails in time.
    pub(crate) async fn ask<T>(
        &self,
        call: impl Future<Output = Result<Reply<T>, BackendError>>,
    ) -> Result<Reply<T>, BackendError> {
        // A backend that panics must not take the answer with it: the scheduler would wait for it for ever.
        let call = AssertUnwindSafe(call).catch_unwind();
        let message = match tokio::time::timeout(self.timeout, call).await {
            Ok(Ok(answer)) => return answer,
            Ok(Err(_)) => "the run ledger panicked".to_owned(),
            Err(_) => format!("the run ledger gave no answer within {:?}", self.timeout),
        };
        Err(BackendError::new(BackendErrorKind::Timeout, Applied::Unknown, message))
    }

    /// Asks with the same claim id until it is known whether the run was claimed, or `give_up` completes. An error counts as
    /// an answer only while none of the requests can have been carried out.
    pub(crate) async fn claim(&self, request: &ClaimRequest, give_up: impl Future<Output = ()>) -> Claiming {
        let mut in_doubt = false;
        let until_certain = async {
            let mut backoff = WAITS;
            loop {
                let sent = self.moment();
                match self.ask(self.ledger().claim(request.clone())).await {
                    Ok(reply) => return (Ok(reply), sent),
                    Err(error) => {
                        in_doubt |= error.applied() != Applied::No;
                        if !in_doubt {
                            return (Err(error), sent);
                        }
                    }
                }
                tokio::time::sleep(backoff.next()).await;
            }
        };
        let answer = tokio::select! {
            biased;
            answer = until_certain => Some(answer),
            () = give_up => None,
        };
        if let Some((answer, sent)) = answer {
            return Claiming { answer, sent, in_doubt };
        }
        let message = "whether the run was claimed is not known";
        let error = BackendError::new(BackendErrorKind::Timeout, Applied::Unknown, message);
        Claiming { answer: Err(error), sent: self.moment(), in_doubt: true }
    }

    /// Records an end, for at most the lease of the run: afterwards it is an orphan anyway.
    pub(crate) async fn end(&self, request: EndRequest, within: Duration) -> Option<EndReply> {
        let until_recorded = async {
            let mut backoff = WAITS;
            loop {
                match self.ask(self.ledger().end(request.clone())).await {
                    Ok(reply) => return Some(reply.outcome),
                    Err(error) if !error.is_retryable() => {
                        tracing::error!(cron.job = %request.job.name, %error, "the end of a run was not recorded");
                        return None;
                    }
                    Err(_) => {}
                }
                tokio::time::sleep(backoff.next()).await;
            }
        };
        tokio::time::timeout(within, until_recorded).await.unwrap_or(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lock_core::clock::TestClock;
    use lock_ledger::MemoryLedger;

    #[tokio::test(start_paused = true)]
    async fn panicking_ledger_counts_as_unanswered() {
        let (ledger, clock) = (Arc::new(MemoryLedger::new()), Arc::new(TestClock::new()));
        let store = Store::new(ledger, clock, GroupName::new("g").unwrap(), Duration::from_secs(1));
        let asked = store.ask::<()>(async { panic!("out of order") }).await;
        assert_eq!(asked.unwrap_err().applied(), Applied::Unknown);
    }
}
