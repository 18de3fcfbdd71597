//! The seam to a client library, for crates that implement it.
//!
//! A [`Client`] dials one endpoint. The [`Connection`] that it makes is never repaired: when it ends, it stays ended, and
//! this crate dials again by its own rules. A client knows no script, no retry, no back-off, no URL and no topology.

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

/// A client library: makes connections to Redis.
///
/// One value serves one backend for its whole life, and is shared by all its dials.
pub trait Client: Default + Send + Sync + 'static {
    /// Its connections.
    type Connection: Connection;

    /// The way to secure its connections, if it was built with one.
    const TLS: TlsSupport<Self>;

    /// Returns `true` if its connections are secured.
    fn is_secured(&self) -> bool;

    /// Opens one connection, logs in, and selects the database. It does not try twice.
    ///
    /// The connection reports its messages and its end to `events`. It has no time limit of its own; this crate has one.
    /// It reports everything on the current tokio runtime, and ends with it.
    ///
    /// # Errors
    /// [`DialError`]. Nothing is left open.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing open.
    fn dial(
        &self,
        endpoint: &Endpoint,
        credentials: &Credentials,
        events: Events,
    ) -> impl Future<Output = Result<Self::Connection, DialError>> + Send;
}

/// The kind of the channels of wake-ups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PubSub {
    /// `SUBSCRIBE`.
    Plain,
    /// `SSUBSCRIBE`, in a cluster since Redis 7: each channel belongs to a slot, so each is named by a command of its own.
    Sharded,
}

/// One connection to one server. It closes when it is dropped.
///
/// Any number of calls may be under way at once; they are sent in the order in which their futures are first polled.
/// A call is sent at most once, at its first poll, and needs no runtime for that. Dropping its future does not disturb
/// other calls; a request that was sent may still be carried out.
pub trait Connection: Send + Sync + 'static {
    /// Sends one command and returns its reply.
    ///
    /// # Errors
    /// [`CallError`], which says whether the command may have been carried out. After [`CallError::Lost`] the connection
    /// is not used any more.
    fn call(&self, command: Command) -> impl Future<Output = Result<Reply, CallError>> + Send;

    /// Sends commands with no other command between them, and returns their replies in the same order. A command that the
    /// server refuses has a [`Reply::Error`].
    ///
    /// # Errors
    /// As [`call`](Self::call), of all commands together.
    fn pipeline(&self, commands: Vec<Command>) -> impl Future<Output = Result<Vec<Reply>, CallError>> + Send;

    /// Subscribes to channels. Returns when the server has acknowledged all of them.
    ///
    /// # Errors
    /// As [`call`](Self::call). What was subscribed to is unknown then.
    fn subscribe(
        &self,
        kind: PubSub,
        channels: Vec<String>,
    ) -> impl Future<Output = Result<(), CallError>> + Send;

    /// Ends subscriptions. Returns when the server has acknowledged it.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    fn unsubscribe(
        &self,
        kind: PubSub,
        channels: Vec<String>,
    ) -> impl Future<Output = Result<(), CallError>> + Send;
}
