//! The interface to a client library, implemented by client crates.
//!
//! A [`Client`] dials one endpoint. The returned [`Connection`] is never repaired: once it has
//! ended, this crate dials a new one according to its own rules. Scripts, retries, back-off, URLs
//! and topologies are handled outside the client.

mod endpoint;
mod error;
mod message;
#[cfg(feature = "__rustls")]
mod rustls_config;
mod tls;

pub use endpoint::{Credentials, Endpoint, Server};
pub(crate) use endpoint::{Login, Provider};
pub(crate) use error::Secrets;
pub use error::{CallError, DialError, DialErrorKind};
pub use message::{Command, PubSub, Reply};
pub(crate) use message::{Info, printable};
#[cfg(feature = "__rustls")]
pub use rustls_config::rustls_config;
pub use tls::{ClientCertificate, Tls, TlsSupport};

use std::{fmt, sync::Arc};
use tokio::sync::SetOnce;

/// A client library, which opens connections to Redis.
///
/// Each backend has one client, which all its dials share.
pub trait Client: Default + Send + Sync + 'static {
    /// The type of its connections.
    type Connection: Connection;

    /// The function that secures connections, if TLS was built in.
    const TLS: TlsSupport<Self>;

    /// Returns `true` if the client's connections use TLS.
    fn is_secured(&self) -> bool;

    /// Opens one connection, logs in and selects the database. It tries only once.
    ///
    /// The connection reports its messages and its end to `events`, on the current tokio runtime,
    /// and ends with that runtime. The dial needs no time limit, because this crate sets one.
    ///
    /// # Errors
    /// Returns [`DialError`] if the connection cannot be opened, and leaves nothing open.
    ///
    /// # Cancel safety
    /// Dropping the future closes everything that was opened.
    fn dial(
        &self,
        endpoint: &Endpoint,
        credentials: &Credentials,
        events: Events,
    ) -> impl Future<Output = Result<Self::Connection, DialError>> + Send;
}

/// A connection to one server. It closes when dropped.
///
/// Any number of calls can be in progress. They are sent in the order in which their futures are
/// first polled. A call is sent at most once, at its first poll, and needs no runtime for that.
/// Dropping its future does not disturb other calls; a request that was already sent may still be
/// executed.
pub trait Connection: Send + Sync + 'static {
    /// Sends one command and returns its reply.
    ///
    /// # Errors
    /// Returns [`CallError`], which indicates whether the command may have been executed. After
    /// [`CallError::Lost`], the connection is no longer used.
    fn call(&self, command: Command) -> impl Future<Output = Result<Reply, CallError>> + Send;

    /// Sends commands without other commands in between, and returns their replies in order. A
    /// rejected command yields a [`Reply::Error`].
    ///
    /// # Errors
    /// Returns the errors of [`call`](Self::call). An error applies to all commands.
    fn pipeline(&self, commands: Vec<Command>) -> impl Future<Output = Result<Vec<Reply>, CallError>> + Send;

    /// Subscribes to channels, and returns once the server has acknowledged all of them.
    ///
    /// # Errors
    /// Returns the errors of [`call`](Self::call). The set of subscriptions is then unknown.
    fn subscribe(
        &self,
        kind: PubSub,
        channels: Vec<String>,
    ) -> impl Future<Output = Result<(), CallError>> + Send;

    /// Ends subscriptions, and returns once the server has acknowledged the end of all of them.
    ///
    /// # Errors
    /// Returns the errors of [`subscribe`](Self::subscribe).
    fn unsubscribe(
        &self,
        kind: PubSub,
        channels: Vec<String>,
    ) -> impl Future<Output = Result<(), CallError>> + Send;
}

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
