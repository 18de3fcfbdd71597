//! The interface to a client library, implemented by client crates.
//!
//! A [`Client`] dials one endpoint. The returned [`Connection`] is never repaired: once it has
//! ended, this crate dials a new one according to its own rules. Scripts, retries, back-off, URLs
//! and topologies are handled outside the client.

mod command;
mod endpoint;
mod error;
mod events;
mod login;
mod reply;
#[cfg(feature = "__rustls")]
mod rustls_config;
mod tls;

pub use command::Command;
pub use endpoint::{Credentials, Endpoint, Server};
pub use error::{CallError, DialError, DialErrorKind};
pub use events::Events;
pub(crate) use events::Listener;
pub(crate) use login::{Login, Provider};
pub use reply::Reply;
pub(crate) use reply::printable;
#[cfg(feature = "__rustls")]
pub use rustls_config::rustls_config;
pub use tls::{ClientCertificate, Tls, TlsSupport};

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

/// The kind of channel that carries wake-ups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PubSub {
    /// `SUBSCRIBE`.
    Plain,
    /// `SSUBSCRIBE`, in a cluster with Redis 7 or later. Each channel belongs to a slot and
    /// therefore needs a separate command.
    Sharded,
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
