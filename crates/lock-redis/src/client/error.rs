//! Client errors. Servers may quote a password in their messages, so a message is printed only after the secrets have
//! been removed from it.

use super::Credentials;
use std::{fmt, sync::Arc, time::Duration};

/// The minimum length of a hidden password. A shorter one protects nothing, and hiding it would garble every text.
const MIN_LENGTH: usize = 4;

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

    /// Creates the error for a dial that got no reply within this time.
    pub(crate) fn silent(limit: Duration) -> Self {
        Self::new(DialErrorKind::TimedOut, format!("no reply within {limit:?}"))
    }
}

/// Formats the kind only.
impl fmt::Debug for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DialError").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// The passwords that a backend uses to log in.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Arc<[String]>);

impl Secrets {
    pub(crate) fn of(credentials: &Credentials) -> Self {
        let passwords = credentials.password.iter().filter(|password| password.len() >= MIN_LENGTH);
        let mut secrets: Vec<String> = passwords
            .flat_map(|password| [password.clone(), quoted(password), in_one_line(password)])
            .collect();
        secrets.dedup();
        Self(secrets.into())
    }

    /// Returns the text without secrets. Servers and proxies may quote what they receive.
    pub(crate) fn hide(&self, text: String) -> String {
        self.0.iter().fold(text, |text, secret| match text.contains(secret.as_str()) {
            true => text.replace(secret, "…"),
            false => text,
        })
    }

    pub(crate) fn hide_in_call(&self, error: CallError) -> CallError {
        match error {
            CallError::NotSent(text) => CallError::NotSent(self.hide(text)),
            CallError::Refused(text) => CallError::Refused(self.hide(text)),
            CallError::Lost(text) => CallError::Lost(self.hide(text)),
            CallError::Unreadable(text) => CallError::Unreadable(self.hide(text)),
        }
    }

    pub(crate) fn hide_in_dial(&self, error: DialError) -> DialError {
        DialError { message: self.hide(error.message), ..error }
    }
}

/// Returns a text as Redis quotes it.
fn quoted(text: &str) -> String {
    let quote = |byte| match byte {
        b'\n' => "\\n".to_owned(),
        b'\r' => "\\r".to_owned(),
        b'\t' => "\\t".to_owned(),
        b'\x07' => "\\a".to_owned(),
        b'\x08' => "\\b".to_owned(),
        b'\\' | b'"' => format!("\\{}", char::from(byte)),
        b' '..=b'~' => char::from(byte).to_string(),
        byte => format!("\\x{byte:02x}"),
    };
    text.bytes().map(quote).collect()
}

/// Returns a text as Redis puts it into an error, which has one line.
fn in_one_line(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(password: &str) -> Secrets {
        Secrets::of(&Credentials { username: None, password: Some(password.to_owned()) })
    }

    #[test]
    fn passwords_are_removed_from_errors() {
        let secrets = secrets("canary");
        let refused = |text: &str| CallError::Refused(text.to_owned());
        assert!(secrets.hide_in_call(refused("ERR who is 'canary'?")) == refused("ERR who is '…'?"));
        assert!(secrets.hide_in_call(refused("ERR no")) == refused("ERR no"));
        let dialled = secrets.hide_in_dial(DialError::new(DialErrorKind::Refused, "ERR 'canary', 'canary'"));
        assert_eq!(dialled.message, "ERR '…', '…'");
    }

    #[test]
    fn password_that_a_server_quotes_is_removed() {
        let hidden = |text: &str| secrets("c\"a\\n\r\nary é").hide(text.to_owned());
        assert_eq!(
            hidden(r#"ERR args beginning with: "c\"a\\n\r\nary \xc3\xa9""#),
            r#"ERR args beginning with: "…""#
        );
        assert_eq!(hidden("ERR who is 'c\"a\\n  ary é'?"), "ERR who is '…'?");
        assert_eq!(hidden("ERR who is 'c\"a\\n\r\nary é'?"), "ERR who is '…'?");
    }

    #[test]
    fn short_password_garbles_no_text() {
        assert_eq!(secrets("e").hide("Connection refused".to_owned()), "Connection refused");
    }
}
