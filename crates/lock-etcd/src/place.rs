//! The URL of a cluster.

use lock_core::LockError;
use percent_encoding::percent_decode_str;
use std::{path::PathBuf, time::Duration};

pub(crate) const SCHEMES: &[&str] = &["etcd", "etcds"];

const PORT: u16 = 2379;

/// The default length of the session, that of a default lease.
const SESSION: Duration = Duration::from_secs(30);

/// With a shorter one, an election of a leader could end it; etcd refuses to serve less than about 2 s.
const SHORTEST_SESSION: u64 = 5;
const LONGEST_SESSION: u64 = 24 * 60 * 60;

/// The contents of a URL.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// Such as `http://host:2379`.
    pub(crate) servers: Vec<String>,
    pub(crate) has_tls: bool,
    /// The file with the certificate of the authority, instead of the system's.
    pub(crate) ca: Option<PathBuf>,
    /// The user and the password.
    pub(crate) login: Option<(String, String)>,
    pub(crate) session: Duration,
    /// All keys begin with it.
    pub(crate) prefix: String,
}

impl Place {
    /// Parses a URL like `etcd://user:password@h1:2379,h2,h3?session=10s`. The error repeats no part of it.
    pub(crate) fn parse(url: &str) -> Result<Self, LockError> {
        let (address, parameters) = url.split_once('?').unwrap_or((url, ""));
        let (scheme, rest) = address.split_once("://").unwrap_or_default();
        let has_tls = scheme.eq_ignore_ascii_case("etcds");
        let (login, hosts) = match rest.rsplit_once('@') {
            Some((login, hosts)) => (Some(parse_login(login)?), hosts),
            None => (None, rest),
        };
        let servers: Option<Vec<String>> =
            hosts.trim_end_matches('/').split(',').map(|host| parse_server(host, has_tls)).collect();
        let servers = servers.filter(|_| SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme)));
        let Some(servers) = servers else {
            return Err(LockError::invalid_url(
                "write it as `etcd://user:password@host1:2379,host2,host3`, with `%` escapes in the password",
            ));
        };
        let mut place =
            Self { servers, has_tls, ca: None, login, session: SESSION, prefix: "distlock/".to_owned() };
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let value = decoded(value)?;
            match key {
                "session" => {
                    let seconds = value.strip_suffix('s').unwrap_or(&value).parse().ok();
                    let seconds = seconds.filter(|s| (SHORTEST_SESSION..=LONGEST_SESSION).contains(s));
                    place.session = seconds.map(Duration::from_secs).ok_or_else(|| {
                        LockError::invalid_url(
                            "`session` is a number of seconds from 5 to 86400, such as `10s`",
                        )
                    })?;
                }
                "prefix" if !value.is_empty() => place.prefix = value,
                "ca" if has_tls && !value.is_empty() => place.ca = Some(value.into()),
                // Not its name: a mistyped one may be a password.
                _ => {
                    return Err(LockError::invalid_url(
                        "the parameters are `session`, `prefix`, and with `etcds://` `ca`: correct or remove the others",
                    ));
                }
            }
        }
        Ok(place)
    }
}

fn parse_login(login: &str) -> Result<(String, String), LockError> {
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    Ok((decoded(user)?, decoded(password)?))
}

fn decoded(text: &str) -> Result<String, LockError> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|_| LockError::invalid_url("an escape is not UTF-8: correct it"))
}

/// Parses `host`, `host:port` or `[address]:port`.
fn parse_server(host: &str, has_tls: bool) -> Option<String> {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port.parse().ok()?),
        _ => (host, PORT),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let is_address = |c: char| c.is_ascii_hexdigit() || ":.".contains(c);
    let is_valid = match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => !address.is_empty() && address.chars().all(is_address),
        None => !name.is_empty() && name.chars().all(is_name),
    };
    is_valid.then(|| format!("{}://{name}:{port}", if has_tls { "https" } else { "http" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read() {
        let place = Place::parse("ETCDS://u:p%40@h1,[::1]:9,h3:7/?session=10s&prefix=a%2F&ca=%2Fc").unwrap();
        assert_eq!(place.servers, ["https://h1:2379", "https://[::1]:9", "https://h3:7"]);
        assert_eq!(place.login, Some(("u".to_owned(), "p@".to_owned())));
        assert_eq!((place.session, place.prefix.as_str()), (Duration::from_secs(10), "a/"));
        assert_eq!(place.ca, Some("/c".into()));
        let plain = Place::parse("etcd://localhost").unwrap();
        assert_eq!((plain.servers[0].as_str(), plain.session), ("http://localhost:2379", SESSION));
    }

    #[test]
    fn unusable_urls_have_a_remedy_and_show_no_password() {
        for (url, remedy) in [
            ("etcd://u:secret@h:port", "write it as"),
            ("etcd://u:secret@h1,,h2", "write it as"),
            ("redis://u:secret@h", "write it as"),
            ("etcd://u:secret@h?session=1s", "from 5 to 86400"),
            ("etcd://u:secret@h?ca=x", "correct or remove"),
            ("etcd://u:secret@h?pasword=secret", "correct or remove"),
            ("etcd://u:%ffsecret@h", "UTF-8"),
        ] {
            let error = Place::parse(url).unwrap_err().to_string();
            assert!(error.contains(remedy) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
