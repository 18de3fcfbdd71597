//! Keeps this process's card in the store: the worker writes and renews the card, and a shutdown removes it.
//!
//! No acquire or release waits for the card, and no lock depends on it.

use super::{
    own_card::{OwnCard, TTL, Turn},
    shared::Shared,
};
use crate::{
    backend::{Applied, BackendError, BackendErrorKind},
    sync::{sleep, timeout},
};
use futures_util::FutureExt;
use std::{panic::AssertUnwindSafe, pin::pin, time::Duration};

/// The time limit for a write or removal.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

impl Shared {
    /// Writes the card and renews it, until the factory is closed or the store refuses the card.
    pub(super) async fn keep_card(&self) {
        let Some(own) = &self.own_card else { return };
        loop {
            let mut moved = pin!(own.moved.notified());
            moved.as_mut().enable();
            if self.is_closed() {
                return;
            }
            match own.turn(self.clock.now()) {
                Turn::Write => self.write_card(own).await,
                Turn::Wait(wait) => tokio::select! {
                    () = sleep(wait) => {}
                    () = moved => {}
                },
                Turn::End => return,
            }
        }
    }

    async fn write_card(&self, own: &OwnCard) {
        let card = own.current(|name, token| {
            let (hold, _) = self.local_view(name);
            hold.is_some_and(|hold| hold.token == token)
        });
        let written = answer(async { own.directory.write_card(self.process, card, TTL).await }).await;
        if let Err(error) = written {
            match error.kind() {
                BackendErrorKind::Denied | BackendErrorKind::Unsupported => {
                    if own.refused() {
                        tracing::warn!(
                            error = %error,
                            "failed to write the process card; no further cards will be written"
                        );
                    }
                }
                _ => tracing::debug!(error = %error, "failed to write the process card"),
            }
        }
        // A removal at shutdown may have been executed before this write.
        if self.is_closed() {
            self.remove_card().await;
        }
    }

    /// Removes the card from the store, if it may be there.
    pub(super) async fn remove_card(&self) {
        let Some(own) = self.own_card.as_ref().filter(|own| own.may_be_stored()) else { return };
        if let Err(error) = answer(async { own.directory.remove_card(self.process).await }).await {
            tracing::debug!(error = %error, "failed to remove the process card");
        }
    }
}

/// Waits for a directory's reply. The directory may hang or panic, but the worker, which waits here, must not.
async fn answer(call: impl Future<Output = Result<(), BackendError>>) -> Result<(), BackendError> {
    let failed = |kind, message| Err(BackendError::new(kind, Applied::Unknown, message));
    match timeout(ANSWER_WITHIN, AssertUnwindSafe(call).catch_unwind()).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => failed(BackendErrorKind::Unsupported, "the directory panicked"),
        Err(_) => failed(BackendErrorKind::Timeout, "the directory did not reply in time"),
    }
}
