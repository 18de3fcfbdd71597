//! Connection events other than replies: messages, and the end of the connection.

use std::{fmt, sync::Arc};
use tokio::sync::SetOnce;

/// A sink to which a connection reports its messages and its end. Dropping the sink also reports the end.
///
/// No method blocks.
pub struct Events {
    /// The reason for the end.
    end: Arc<SetOnce<String>>,
    listener: Option<Arc<dyn Listener>>,
}

/// A receiver of a connection's messages.
pub(crate) trait Listener: Send + Sync {
    fn message(&self, channel: &str);
    fn missed(&self);
}

impl Events {
    pub(crate) fn new(end: Arc<SetOnce<String>>, listener: Option<Arc<dyn Listener>>) -> Self {
        Self { end, listener }
    }

    /// Reports a message on a channel. The content is ignored.
    pub fn message(&self, channel: &str) {
        if let Some(listener) = &self.listener {
            listener.message(channel);
        }
    }

    /// Reports that messages were dropped because they arrived faster than they were read.
    pub fn missed(&self) {
        if let Some(listener) = &self.listener {
            listener.missed();
        }
    }

    /// Reports the end of the connection and its reason.
    pub fn ended(self, reason: impl Into<String>) {
        let _ = self.end.set(reason.into());
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let _ = self.end.set("dropped by the client".to_owned());
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}
