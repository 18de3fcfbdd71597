//! The URL of an ensemble.

use lock_core::LockError;
use lock_session::ServersUrl;
use std::{path::PathBuf, time::Duration};

pub(crate) const SCHEMES: &[&str] = &["zookeeper", "zookeepers"];

/// The default length of the session: the longest one that a server with default settings grants.
const SESSION: Duration = Duration::from_secs(40);

/// The least and the greatest length of a session, in seconds. A server grants 2 to 20 of its ticks of 2 s, unless it is set up
/// otherwise; [`Place::max_lease`] needs four of them.
const SESSIONS: (u64, u64) = (8, 24 * 60 * 60);

/// The contents of a URL.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// Each server as `host:port`, or with TLS as `tcp+tls://host:port`.
    pub(crate) servers: Vec<String>,
    /// With TLS, the file with the certificates of the authority.
    pub(crate) ca: Option<PathBuf>,
    /// The user and the password.
    pub(crate) login: Option<(String, String)>,
    pub(crate) session: Duration,
    /// The path of the node under which all others are, such as `/distlock`.
    pub(crate) root: String,
}

impl Place {
    /// Parses a URL like `zookeeper://user:password@h1:2181,h2,h3/path?session=10s`. The error repeats no part of it.
    pub(crate) fn parse(url: &str) -> Result<Self, LockError> {
        let mut url = ServersUrl::parse(url, "zookeeper", 2181)?;
        let session = url.take_session(SESSIONS.0..=SESSIONS.1, SESSION)?;
        let ca = if url.has_tls { url.take("ca").map(PathBuf::from) } else { None };
        url.finish("`session`, and with `zookeepers://` `ca`")?;
        if url.has_tls && ca.is_none() {
            return Err(LockError::invalid_url(
                "TLS needs `?ca=`, the file with the certificates of the servers' authority",
            ));
        }
        let root = match url.path.as_str() {
            "" => "/distlock".to_owned(),
            path if is_path(path) => format!("/{path}"),
            _ => {
                return Err(LockError::invalid_url(
                    "the path must be that of a node, such as `/distlock`, and not below `/zookeeper`",
                ));
            }
        };
        let protocol = if url.has_tls { "tcp+tls://" } else { "" };
        let servers = url.hosts.iter().map(|host| format!("{protocol}{host}")).collect();
        Ok(Self { servers, ca, login: url.login, session, root })
    }

    /// The time without an answer after which another server is tried. The client sends a ping at least twice in it.
    pub(crate) fn answers_within(&self) -> Duration {
        (self.session / 10).min(Duration::from_secs(2))
    }

    /// The longest lease: for how long the session lasts, at least, from the beginning of a request that succeeds.
    ///
    /// A follower tells its leader twice in a tick which sessions are alive. A session has at least four ticks, so the leader has
    /// heard of it at most an eighth of it before the request. The client was heard at most half of
    /// [`answers_within`](Self::answers_within) before that. The rest of a quarter is for a leader that is slow.
    pub(crate) fn max_lease(&self) -> Duration {
        self.session * 3 / 4
    }
}

fn is_path(path: &str) -> bool {
    // ZooKeeper refuses private characters, and the last ones of the first plane.
    let is_refused =
        |c: char| c.is_control() || matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..='\u{ffff}');
    let is_node = |node: &str| !matches!(node, "" | "." | "..") && !node.contains(is_refused);
    path.split('/').all(is_node) && path.split('/').next() != Some("zookeeper")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read() {
        let place = Place::parse("zookeepers://u:p@h1,h2:9/a/b?session=10s&ca=%2Fc").unwrap();
        assert_eq!(place.servers, ["tcp+tls://h1:2181", "tcp+tls://h2:9"]);
        assert_eq!(place.root, "/a/b");
        assert_eq!(
            (place.session, place.max_lease()),
            (Duration::from_secs(10), Duration::from_millis(7_500))
        );
        let plain = Place::parse("zookeeper://localhost").unwrap();
        assert_eq!((plain.servers[0].as_str(), plain.root.as_str()), ("localhost:2181", "/distlock"));
        for unusable in [
            "zookeepers://h",
            "zookeeper://h?ca=x",
            "zookeeper://h/zookeeper/config",
            "zookeeper://h/a//b",
            "zookeeper://h/%EF%BF%BF",
            "zookeeper://h/a/..",
            "zookeeper://h?session=7s",
        ] {
            assert!(Place::parse(unusable).is_err(), "{unusable}");
        }
    }
}
