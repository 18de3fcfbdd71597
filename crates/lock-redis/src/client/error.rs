//! Failures of a client. Their texts may quote a password, since servers do: they are printed only after this crate has taken
//! the secrets out.

use std::fmt;

/// A call failed.
#[derive(Clone, PartialEq, Eq)]
pub enum CallError {
    /// The command never left, for certain.
    NotSent(String),
    /// The server answered with this error, in its own words.
    Refused(String),
    /// The command was sent, or perhaps it was, and no answer will come: it may have been carried out.
    Lost(String),
    /// An answer came that cannot be read.
    Unreadable(String),
}

/// The variant alone.
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

/// A connection could not be made.
#[derive(Clone, PartialEq, Eq)]
pub struct DialError {
    pub(crate) kind: DialErrorKind,
    pub(crate) message: String,
}

/// The reasons for which a connection could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DialErrorKind {
    /// Nobody listens at the address.
    NobodyListens,
    /// The address could not be reached, for another reason.
    Unreachable,
    /// The connection was closed before it was ready.
    Closed,
    /// The certificate of the server is not trusted.
    Certificate,
    /// TLS failed otherwise.
    Tls,
    /// The server answered with an error: the message is the server's own.
    Refused,
    /// The other side does not speak the protocol of Redis.
    NotRedis,
    /// The client does not take the settings.
    Settings,
    /// Nobody answered in time.
    TimedOut,
}

impl DialError {
    /// An error with a message of the server, of the system or of the client library.
    #[must_use]
    pub fn new(kind: DialErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

/// The kind alone.
impl fmt::Debug for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DialError").field("kind", &self.kind).finish_non_exhaustive()
    }
}
