//! Connections to a server, which requests borrow in the keeper.

#[cfg(feature = "postgres")]
use lock_core::Worker;
use lock_core::{
    __private::lock,
    backend::{Applied, BackendError, BackendErrorKind},
};
use std::{sync::Mutex, time::Duration};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, timeout},
};

/// The time limit for work that nobody else limits.
pub(crate) const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// A connection that was idle for this long may have been closed by something in between.
const DOUBTED_AFTER: Duration = Duration::from_secs(10);

/// The time within which such a connection shows that it was not.
const PONG_WITHIN: Duration = Duration::from_secs(1);

/// Some connections to a server. Each is closed if its statement is given up, or fails without a word of the server.
pub(crate) struct Connections<C> {
    permits: Semaphore,
    idle: Mutex<Vec<(C, Instant)>>,
}

impl<C: sqlx::Connection> Connections<C> {
    pub(crate) fn new(number: usize) -> Self {
        Self { permits: Semaphore::new(number), idle: Mutex::default() }
    }

    fn idle(&self) -> Option<(C, Instant)> {
        lock(&self.idle).pop()
    }

    pub(crate) fn keep(&self, connection: C) {
        lock(&self.idle).push((connection, Instant::now()));
    }

    /// Lends a connection, or opens one. Waits while all are lent.
    pub(crate) async fn lend(
        &self,
        open: impl Future<Output = Result<C, BackendError>>,
    ) -> Result<Lent<'_, C>, BackendError> {
        // Never closed.
        let permit = self.permits.acquire().await.ok();
        let loan = Loan { from: self, is_settled: false, _permit: permit };
        if let Some((mut connection, since)) = self.idle() {
            if since.elapsed() < DOUBTED_AFTER
                || matches!(timeout(PONG_WITHIN, connection.ping()).await, Ok(Ok(())))
            {
                return Ok(Lent { connection, loan });
            }
            lock(&self.idle).clear();
        }
        Ok(Lent { connection: open.await?, loan })
    }
}

/// A connection that is closed unless it is given back.
pub(crate) struct Lent<'c, C> {
    pub(crate) connection: C,
    loan: Loan<'c, C>,
}

impl<C: sqlx::Connection> Lent<'_, C> {
    pub(crate) fn give_back(mut self) {
        self.loan.is_settled = true;
        self.loan.from.keep(self.connection);
    }
}

/// Unless it is settled, this closes the connections that are not used now: one has failed or was given up, so they have
/// probably lost the server as well.
struct Loan<'c, C> {
    from: &'c Connections<C>,
    is_settled: bool,
    _permit: Option<SemaphorePermit<'c>>,
}

impl<C> Drop for Loan<'_, C> {
    fn drop(&mut self) {
        if !self.is_settled {
            lock(&self.from.idle).clear();
        }
    }
}

/// Runs a request in the keeper.
#[cfg(feature = "postgres")]
pub(crate) async fn run<T: Send + 'static>(
    keeper: &Worker,
    work: impl Future<Output = Result<T, BackendError>> + Send + 'static,
) -> Result<T, BackendError> {
    keeper.run(work).await.unwrap_or_else(|_| Err(ended()))
}

#[cfg(feature = "postgres")]
pub(crate) fn ended() -> BackendError {
    let message = "the thread of the store has ended: create a new store";
    BackendError::new(BackendErrorKind::Unavailable, Applied::Unknown, message)
}

/// Limits the time of work that nobody else limits.
pub(crate) async fn in_time<T>(
    work: impl Future<Output = Result<T, BackendError>>,
) -> Result<T, BackendError> {
    timeout(ANSWERS_WITHIN, work).await.unwrap_or_else(|_| {
        let message = "the database has not answered in time";
        Err(BackendError::new(BackendErrorKind::Timeout, Applied::Unknown, message))
    })
}

pub(crate) fn misconfigured(message: impl Into<String>) -> BackendError {
    BackendError::new(BackendErrorKind::Misconfigured, Applied::No, message)
}
