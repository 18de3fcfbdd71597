//! Removal of the configured secrets from every text that comes from a server.

use crate::client::{CallError, Credentials, DialError};
use std::sync::Arc;

/// The minimum length of a hidden password. A shorter one protects nothing, and hiding it would garble every text.
const MIN_LENGTH: usize = 4;

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
    use crate::client::DialErrorKind;

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
