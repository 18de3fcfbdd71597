//! Renewals of several leases at a time.

use lock_core::backend::{Applied, BackendError, BackendErrorKind, RenewRequest, Renewed, Reply};
use std::{collections::HashSet, time::Duration};
use tokio::time::sleep;

/// The number of attempts to renew a lease whose row another transaction has, and the pause between them.
const ATTEMPTS: u32 = 6;
const PAUSE: Duration = Duration::from_millis(30);

/// A server that renews several leases in one transaction.
pub(crate) trait RenewsTogether {
    /// Renews leases of different names. Returns `None` for those whose rows other transactions have.
    fn renew_together(
        &self,
        batch: Vec<RenewRequest>,
    ) -> impl Future<Output = Result<Vec<Option<Reply<Renewed>>>, BackendError>> + Send;
}

/// Renews leases. Those whose rows other transactions have delay no other renewal, and are tried again a little later.
pub(crate) async fn renew(
    server: &impl RenewsTogether,
    items: Vec<RenewRequest>,
) -> Vec<Result<Reply<Renewed>, BackendError>> {
    let mut answers: Vec<_> = items.into_iter().map(|item| (item, None)).collect();
    for attempt in 0..ATTEMPTS {
        let mut names = HashSet::new();
        let mut batch: Vec<_> = answers
            .iter_mut()
            .filter(|(item, answer)| answer.is_none() && names.insert(item.name.clone()))
            .collect();
        if batch.is_empty() {
            break;
        }
        if attempt > 0 {
            sleep(PAUSE).await;
        }
        let replies = server.renew_together(batch.iter().map(|(item, _)| item.clone()).collect()).await;
        let mut replies = replies.map(IntoIterator::into_iter);
        for (_, answer) in &mut batch {
            *answer = match &mut replies {
                Ok(replies) => replies.next().flatten().map(Ok),
                Err(error) => Some(Err(error.clone())),
            };
        }
    }
    let skipped = || {
        let message = "another transaction keeps the row of the lock; end it sooner";
        Err(BackendError::new(BackendErrorKind::Unavailable, Applied::No, message))
    };
    answers.into_iter().map(|(_, answer)| answer.unwrap_or_else(skipped)).collect()
}
