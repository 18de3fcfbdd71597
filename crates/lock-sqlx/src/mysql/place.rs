//! The URL of a database.

use lock_core::LockError;
use sqlx::{ConnectOptions as _, mysql::MySqlConnectOptions};
use std::str::FromStr as _;

/// The default number of connections for acquires.
const CONNECTIONS: usize = 4;
const MAX_CONNECTIONS: usize = 1000;

pub(super) const SCHEMES: &[&str] = &["mysql", "mariadb"];

/// The parameters that sqlx knows, without those that a connection of locks sets itself.
const OF_SQLX: [&str; 9] =
    ["sslmode", "ssl-mode", "sslca", "ssl-ca", "sslcert", "ssl-cert", "sslkey", "ssl-key", "socket"];

/// The contents of a URL.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) options: MySqlConnectOptions,
    /// The number of connections for acquires.
    pub(super) connections: usize,
    /// Creates the tables while connecting.
    pub(super) migrates: bool,
}

impl Place {
    /// Returns `true` for a URL of MySQL or MariaDB.
    fn is_of(url: &str) -> bool {
        url.split_once("://")
            .is_some_and(|(scheme, _)| SCHEMES.iter().any(|s| s.eq_ignore_ascii_case(scheme)))
    }

    /// Parses a URL of MySQL or MariaDB, with the parameters of this crate.
    pub(super) fn parse(url: &str) -> Result<Self, LockError> {
        let (address, parameters) = url.split_once('?').unwrap_or((url, ""));
        let (mut connections, mut migrates) = (CONNECTIONS, false);
        let mut others = Vec::new();
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=').unwrap_or((parameter, "")) {
                ("connections", number) => {
                    let number = number.parse().ok().filter(|number| (1..=MAX_CONNECTIONS).contains(number));
                    connections = number
                        .ok_or_else(|| LockError::invalid_url("`connections` is a number from 1 to 1000"))?;
                }
                ("migrate", "true") => migrates = true,
                ("migrate", "false") => migrates = false,
                ("migrate", _) => return Err(LockError::invalid_url("`migrate` is `true` or `false`")),
                (key, _) if OF_SQLX.contains(&key) => others.push(parameter),
                // Not its name: a mistyped one may be a password.
                _ => {
                    return Err(LockError::invalid_url(
                        "the parameters are `migrate`, `connections`, and `ssl-mode`, `ssl-ca`, `ssl-cert`, `ssl-key` and \
                         `socket` of sqlx: correct or remove the others",
                    ));
                }
            }
        }
        let address = match Self::is_of(address) {
            true => address.split_once("://").map_or("", |(_, rest)| rest),
            false => "",
        };
        let options = MySqlConnectOptions::from_str(&format!("mysql://{address}?{}", others.join("&")));
        // The error may repeat a part of the URL, which has a password.
        let options = options.ok().filter(|options| options.get_database().is_some());
        let Some(options) = options else {
            return Err(LockError::invalid_url(
                "write it as `mysql://user:password@host:3306/database`, with `%` escapes in the password",
            ));
        };
        Ok(Self { options: options.disable_statement_logging(), connections, migrates })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read() {
        let place =
            Place::parse("MariaDB://u:p%40@h:1/d?connections=7&migrate=true&ssl-mode=disabled").unwrap();
        assert!(place.migrates);
        assert_eq!((place.connections, place.options.get_port()), (7, 1));
        assert_eq!(place.options.get_database(), Some("d"));
        assert!(!Place::parse("mysql://h/d").unwrap().migrates);
    }

    #[test]
    fn unusable_urls_have_a_remedy_and_show_no_password() {
        for (url, remedy) in [
            ("mysql://u:secret@h:port/d", "write it as"),
            ("mysql://u:secret@h", "write it as"),
            ("postgres://u:secret@h/d", "write it as"),
            ("mysql://u:secret@h/d?connections=0", "from 1 to 1000"),
            ("mysql://u:secret@h/d?timezone=secret", "correct or remove"),
            ("mysql://u:secret@h/d?migrate", "`migrate` is `true` or `false`"),
        ] {
            let error = Place::parse(url).unwrap_err().to_string();
            assert!(error.contains(remedy) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
