//! The URL of a database.

use super::statements::Tables;
use lock_core::LockError;
use sqlx::{ConnectOptions as _, postgres::PgConnectOptions};
use std::str::FromStr as _;

/// The default number of connections for acquires.
const CONNECTIONS: usize = 4;
const MAX_CONNECTIONS: usize = 1000;

/// The parameters that sqlx knows.
const OF_SQLX: [&str; 15] = [
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "statement-cache-capacity",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
];

/// The contents of a URL.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) options: PgConnectOptions,
    pub(super) schema: Option<String>,
    /// The number of connections for acquires.
    pub(super) connections: usize,
    /// The connections are those of a pooler, which gives each transaction any connection to the server. So each operation
    /// is a transaction by name, with statements that have none, and releases are looked for.
    pub(super) has_pooler: bool,
    /// Creates the tables while connecting.
    pub(super) migrates: bool,
}

impl Place {
    /// Parses a URL of PostgreSQL, with the parameters of this crate.
    pub(super) fn parse(url: &str) -> Result<Self, LockError> {
        let (address, parameters) = url.split_once('?').unwrap_or((url, ""));
        let (mut schema, mut connections, mut has_pooler, mut migrates) = (None, CONNECTIONS, false, false);
        let mut others = Vec::new();
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=').unwrap_or((parameter, "")) {
                ("schema", name) if is_identifier(name) => schema = Some(name.to_owned()),
                ("schema", _) => {
                    return Err(LockError::invalid_url(
                        "`schema` is a name of up to 40 letters a to z, digits and `_`",
                    ));
                }
                ("connections", number) => {
                    let number = number.parse().ok().filter(|number| (1..=MAX_CONNECTIONS).contains(number));
                    connections = number
                        .ok_or_else(|| LockError::invalid_url("`connections` is a number from 1 to 1000"))?;
                }
                ("pooler", "true") => has_pooler = true,
                ("pooler", "false") => has_pooler = false,
                ("pooler", _) => return Err(LockError::invalid_url("`pooler` is `true` or `false`")),
                ("migrate", "true") => migrates = true,
                ("migrate", "false") => migrates = false,
                ("migrate", _) => return Err(LockError::invalid_url("`migrate` is `true` or `false`")),
                (key, _) if OF_SQLX.contains(&key) || key.starts_with("options") => others.push(parameter),
                // Not its name: a mistyped one may be a password.
                _ => {
                    return Err(LockError::invalid_url(
                        "the parameters are `schema`, `migrate`, `pooler`, `connections`, and those of sqlx, such as \
                         `sslmode`: correct or remove the others",
                    ));
                }
            }
        }
        let is_postgres = ["postgres://", "postgresql://"].iter().any(|scheme| {
            address.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme))
        });
        let options = PgConnectOptions::from_str(&format!("{address}?{}", others.join("&")));
        // The error may repeat a part of the URL, which has a password.
        let Ok(options) = options.map_err(drop).and_then(|options| is_postgres.then_some(options).ok_or(()))
        else {
            return Err(LockError::invalid_url(
                "write it as `postgres://user:password@host:5432/database`, with `%` escapes in the password",
            ));
        };
        // A pooler would refuse this parameter.
        let options =
            options.extra_float_digits(None).application_name("distlock").disable_statement_logging();
        // A statement is planned once: planning it costs as much as executing it.
        let options = match has_pooler {
            true => options,
            false => options.options([("plan_cache_mode", "force_generic_plan")]),
        };
        Ok(Self { options, schema, connections, has_pooler, migrates })
    }

    pub(super) fn tables(&self) -> Tables {
        Tables::of(self.schema.as_deref())
    }
}

/// Returns `true` for names that need no escapes, and that PostgreSQL does not shorten.
fn is_identifier(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (1..=40).contains(&name.len()) && name.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_this_crate_are_not_those_of_the_server() {
        let url =
            "PostgreSQL://u:p%40@h:1/d?schema=shop&pooler=true&connections=7&migrate=true&sslmode=disable";
        let place = Place::parse(url).unwrap();
        assert_eq!(place.schema.as_deref(), Some("shop"));
        assert!(place.has_pooler && place.migrates);
        assert_eq!((place.connections, place.options.get_port()), (7, 1));
        let plain = Place::parse("postgres://h/d").unwrap();
        assert!(plain.schema.is_none() && !plain.has_pooler && !plain.migrates);
    }

    #[test]
    fn unusable_urls_have_a_remedy_and_show_no_password() {
        for (url, remedy) in [
            ("postgres://u:secret@h:port/d", "write it as"),
            ("mysql://u:secret@h/d", "write it as"),
            ("postgres://u:secret@h/d?pooler=maybe", "`pooler` is `true` or `false`"),
            ("postgres://u:secret@h/d?connections=0", "from 1 to 1000"),
            ("postgres://u:secret@h/d?shema=secret", "correct or remove"),
            ("postgres://u:secret@h/d?schema=a\"b", "letters"),
            ("postgres://u:secret@h/d?migrate", "`migrate` is `true` or `false`"),
        ] {
            let error = Place::parse(url).unwrap_err().to_string();
            assert!(error.contains(remedy) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
