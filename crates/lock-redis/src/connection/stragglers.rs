//! Several servers are opened at once, and enough of them must answer. The others do not delay the start for long.

use lock_core::backend::BackendError;
use std::time::Duration;
use tokio::{sync::watch, time::sleep};

/// Time limit for the remaining servers after enough have answered.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The time limit of servers that are opened together.
pub(crate) struct Stragglers {
    answered: watch::Sender<usize>,
    enough: usize,
}

impl Stragglers {
    pub(crate) fn after(enough: usize) -> Self {
        Self { answered: watch::Sender::new(0), enough }
    }

    /// Opens one server. Fails with `late` if enough others answered a while ago.
    pub(crate) async fn limit<T>(
        &self,
        opening: impl Future<Output = Result<T, BackendError>>,
        late: impl FnOnce() -> BackendError,
    ) -> Result<T, BackendError> {
        let too_late = async {
            let _ = self.answered.subscribe().wait_for(|answered| *answered >= self.enough).await.map(drop);
            sleep(TIMEOUT).await;
        };
        tokio::select! {
            biased;
            opened = Box::pin(opening) => {
                if opened.is_ok() {
                    self.answered.send_modify(|answered| *answered += 1);
                }
                opened
            }
            () = too_late => Err(late()),
        }
    }
}
