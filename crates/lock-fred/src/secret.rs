//! Secrets of the configuration, taken out of every text that comes from the server.

use fred::{error::Error, types::config::Config};
use std::sync::Arc;

/// Shorter passwords are left: taking them out would garble every text, and they protect nothing.
const MIN_LENGTH: usize = 4;

/// The passwords with which a backend logs in.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Arc<[String]>);

impl Secrets {
    pub(crate) fn of(config: &Config) -> Self {
        Self(config.password.iter().filter(|password| password.len() >= MIN_LENGTH).cloned().collect())
    }

    /// The same error without secrets. Servers and proxies may quote what they were sent.
    pub(crate) fn hide(&self, error: Error) -> Error {
        let mut details = error.details().to_owned();
        for secret in self.0.iter().filter(|secret| error.details().contains(secret.as_str())) {
            details = details.replace(secret, "…");
        }
        if details == error.details() { error } else { Error::new(error.kind().clone(), details) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fred::error::ErrorKind;

    #[test]
    fn passwords_are_taken_out_of_errors() {
        let secrets = Secrets::of(&Config { password: Some("canary".into()), ..Config::default() });
        let hidden = secrets.hide(Error::new(ErrorKind::Auth, "ERR who is 'canary'?"));
        assert_eq!((hidden.kind(), hidden.details()), (&ErrorKind::Auth, "ERR who is '…'?"));
        let silent = secrets.hide(Error::new(ErrorKind::IO, "Connection reset"));
        assert_eq!(silent.details(), "Connection reset");
    }
}
