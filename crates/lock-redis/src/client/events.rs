//! Reports of a connection that nobody asked for: messages, and its end.

use std::{fmt, sync::Arc};
use tokio::sync::SetOnce;

/// The receiver of the messages and of the end of a connection. Dropping it reports the end as well.
///
/// All methods return at once.
pub struct Events {
    /// The reason.
    end: Arc<SetOnce<String>>,
    listener: Option<Arc<dyn Listener>>,
}

/// A receiver of the messages of a connection.
pub(crate) trait Listener: Send + Sync {
    fn message(&self, channel: &str);
    fn missed(&self);
}

impl Events {
    pub(crate) fn new(end: Arc<SetOnce<String>>, listener: Option<Arc<dyn Listener>>) -> Self {
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
        let _ = self.end.set(reason.into());
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let _ = self.end.set("the client gave it up".to_owned());
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}
