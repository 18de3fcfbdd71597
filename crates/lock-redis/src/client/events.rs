//! What a connection reports without being asked: messages, and its end.

use std::{fmt, sync::Arc};
use tokio::sync::watch;

/// Where a connection reports messages and its end. Dropping it is the end as well.
///
/// All methods return at once.
pub struct Events {
    end: Arc<End>,
    listener: Option<Arc<dyn Listener>>,
}

/// Who hears the messages of a connection.
pub(crate) trait Listener: Send + Sync {
    fn message(&self, channel: &str);
    fn missed(&self);
}

impl Events {
    pub(crate) fn new(end: Arc<End>, listener: Option<Arc<dyn Listener>>) -> Self {
        Self { end, listener }
    }

    /// A message came on a channel. Its content does not matter.
    pub fn message(&self, channel: &str) {
        if let Some(listener) = &self.listener {
            listener.message(channel);
        }
    }

    /// Messages were dropped, because they came faster than they were reported.
    pub fn missed(&self) {
        if let Some(listener) = &self.listener {
            listener.missed();
        }
    }

    /// The connection has ended, for this reason.
    pub fn ended(self, reason: impl Into<String>) {
        self.end.set(reason);
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.end.set("the client gave it up");
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

/// The end of a connection: set once, waited for by everybody who uses it.
#[derive(Debug, Default)]
pub(crate) struct End(watch::Sender<Option<String>>);

impl End {
    /// The first reason counts.
    pub(crate) fn set(&self, reason: impl Into<String>) {
        self.0.send_if_modified(|end| {
            let first = end.is_none();
            end.get_or_insert_with(|| reason.into());
            first
        });
    }

    /// Returns the reason, as soon as there is one.
    pub(crate) async fn reached(&self) -> String {
        let mut end = self.0.subscribe();
        let reached = end.wait_for(Option::is_some).await;
        reached.ok().and_then(|reason| reason.clone()).unwrap_or_default()
    }
}
