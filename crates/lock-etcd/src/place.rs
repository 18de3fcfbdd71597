//! The URL of a cluster.

use lock_core::LockError;
use lock_session::ServersUrl;
use std::{path::PathBuf, time::Duration};

pub(crate) const SCHEMES: &[&str] = &["etcd", "etcds"];

/// The default length of the session, which is renewed in time for a default lease of 30 s.
const SESSION: Duration = Duration::from_secs(40);

/// The least and the greatest length of a session, in seconds. With a shorter one, an election of a leader could end it; etcd
/// refuses to serve less than about 2 s.
const SESSIONS: (u64, u64) = (5, 24 * 60 * 60);

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
        let mut url = ServersUrl::parse(url, "etcd", 2379)?;
        let session = url.take_session(SESSIONS.0..=SESSIONS.1, SESSION)?;
        let mut prefix = url.take("prefix").unwrap_or_else(|| "distlock".to_owned());
        if !prefix.ends_with('/') {
            // A right for `shop` would include `shop2`.
            prefix.push('/');
        }
        let ca = if url.has_tls { url.take("ca").map(PathBuf::from) } else { None };
        url.finish("`session`, `prefix`, and with `etcds://` `ca`")?;
        if !url.path.is_empty() {
            return Err(LockError::invalid_url("it has no path: write `?prefix=` for where the keys begin"));
        }
        let protocol = if url.has_tls { "https" } else { "http" };
        let servers = url.hosts.iter().map(|host| format!("{protocol}://{host}")).collect();
        Ok(Self { servers, has_tls: url.has_tls, ca, login: url.login, session, prefix })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read() {
        let place = Place::parse("ETCDS://u:p%40@h1,[::1]:9/?session=10s&prefix=a&ca=%2Fc").unwrap();
        assert_eq!(place.servers, ["https://h1:2379", "https://[::1]:9"]);
        assert_eq!((place.session, place.prefix.as_str()), (Duration::from_secs(10), "a/"));
        assert_eq!(place.ca, Some("/c".into()));
        let plain = Place::parse("etcd://localhost").unwrap();
        assert_eq!((plain.servers[0].as_str(), plain.session), ("http://localhost:2379", SESSION));
        for unusable in ["etcd://h?ca=x", "etcd://h/path", "etcd://h?session=1s"] {
            assert!(Place::parse(unusable).is_err(), "{unusable}");
        }
    }
}
