//! Client errors. Servers may quote a password in their error messages, so a message is printed
//! only after this crate has removed the secrets from it.

use std::fmt;

/// An error from a call.
#[derive(Clone, PartialEq, Eq)]
pub enum CallError {
    /// The command was definitely not sent.
    NotSent(String),
    /// The server replied with this error message.
    Refused(String),
    /// The command was or may have been sent, and no reply will arrive. It may have been executed.
    Lost(String),
    /// The reply cannot be decoded.
    Unreadable(String),
}

/// Formats the variant only.
impl fmt::Debug for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotSent(_) => "NotSent(…)",
            Self::Refused(_) => "Refused(…)",
            Self::Lost(_) => "Lost(…)",
            Self::Unreadable(_) => "Unreadable(…)",
        })
    }
}

/// An error from opening a connection.
#[derive(Clone, PartialEq, Eq)]
pub struct DialError {
    pub(crate) kind: DialErrorKind,
    pub(crate) message: String,
}

/// The kind of a [`DialError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DialErrorKind {
    /// Connection refused: nothing is listening at the address.
    NobodyListens,
    /// The address could not be reached for another reason.
    Unreachable,
    /// The connection closed before it was ready.
    Closed,
    /// The server's certificate is not trusted.
    Certificate,
    /// TLS failed for another reason.
    Tls,
    /// The server replied with an error, which is the message.
    Refused,
    /// The peer does not speak the Redis protocol.
    NotRedis,
    /// The client rejected the settings.
    Settings,
    /// No reply arrived in time.
    TimedOut,
}

impl DialError {
    /// Creates an error with a message from the server, the system or the client library.
    #[must_use]
    pub fn new(kind: DialErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

/// Formats the kind only.
impl fmt::Debug for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DialError").field("kind", &self.kind).finish_non_exhaustive()
    }
}
