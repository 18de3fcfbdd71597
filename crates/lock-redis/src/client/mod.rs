//! The interface to a client library, for the crates that implement it.
//!
//! A [`Client`] dials one endpoint. The [`Connection`] that it returns is never repaired: once it has ended, this
//! crate dials again by its own rules. A client knows nothing of scripts, retries, back-off, URLs or topologies.

mod command;
mod endpoint;
mod error;
mod events;
mod reply;
#[cfg(feature = "rustls")]
mod rustls_config;
mod tls;

pub use command::Command;
pub use endpoint::{Credentials, Endpoint, Server};
pub use error::{CallError, DialError, DialErrorKind};
pub use events::Events;
pub(crate) use events::Listener;
pub use reply::Reply;
#[cfg(feature = "rustls")]
pub use rustls_config::rustls_config;
pub use tls::{ClientCertificate, Tls, TlsSupport};

/// A client library, which opens connections to Redis.
///
/// One value serves one backend for as long as the backend exists, and is shared by all its dials.
pub trait Client: Default + Send + Sync + 'static {
    /// The type of its connections.
    type Connection: Connection;

    /// The way to secure its connections, if TLS was built in.
    const TLS: TlsSupport<Self>;

    /// Returns `true` if its connections are secured.
    fn is_secured(&self) -> bool;

    /// Opens one connection, logs in and selects the database. It tries only once.
    ///
    /// The connection reports its messages and its end to `events`, on the current tokio runtime, and ends with that
    /// runtime. The dial needs no time limit of its own, since this crate sets one.
    ///
    /// # Errors
    /// [`DialError`]. Nothing is left open.
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

/// The kind of channel that carries wake-ups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PubSub {
    /// `SUBSCRIBE`.
    Plain,
    /// `SSUBSCRIBE`, in a cluster with Redis 7 or later. Each channel belongs to a slot and therefore needs a command
    /// of its own.
    Sharded,
}

/// A connection to one server. It closes when dropped.
///
/// Any number of calls may be under way at once. They are sent in the order in which their futures are first polled.
/// A call is sent at most once, at its first poll, and needs no runtime for that. Dropping its future does not
/// disturb other calls; a request that was already sent may still be executed.
pub trait Connection: Send + Sync + 'static {
    /// Sends one command and returns its reply.
    ///
    /// # Errors
    /// [`CallError`], which says whether the command may have been executed. After [`CallError::Lost`] the connection
    /// is no longer used.
    fn call(&self, command: Command) -> impl Future<Output = Result<Reply, CallError>> + Send;

    /// Sends commands with no other command between them and returns their replies in order. A command that the
    /// server refuses yields a [`Reply::Error`].
    ///
    /// # Errors
    /// As [`call`](Self::call), for all commands together.
    fn pipeline(&self, commands: Vec<Command>) -> impl Future<Output = Result<Vec<Reply>, CallError>> + Send;

    /// Subscribes to channels, and returns once the server has acknowledged all of them.
    ///
    /// # Errors
    /// As [`call`](Self::call). The set of subscriptions is then unknown.
    fn subscribe(
        &self,
        kind: PubSub,
        channels: Vec<String>,
    ) -> impl Future<Output = Result<(), CallError>> + Send;

    /// Ends subscriptions, and returns once the server has acknowledged it.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    fn unsubscribe(
        &self,
        kind: PubSub,
        channels: Vec<String>,
    ) -> impl Future<Output = Result<(), CallError>> + Send;
}
