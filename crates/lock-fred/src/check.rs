//! What is checked before the first lock: that the server can keep locks, and that we may do all that they need.

use crate::{backend::RedisBackend, keys::Keys};
use lock_core::{Applied, BackendError, BackendErrorKind, LockError, ProcessId};
use std::{collections::HashMap, fmt};

/// The oldest server whose commands do what the scripts need.
const OLDEST: (u32, u32) = (6, 2);

/// Something about a server that works today and may lose locks some day.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectWarning {
    /// The server deletes keys when its memory is full, locks among them.
    Evicts {
        /// Its `maxmemory-policy`.
        policy: String,
    },
    /// The server does not tell what it is.
    NotChecked {
        /// Why.
        reason: String,
    },
}

impl fmt::Display for ConnectWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Evicts { policy } => write!(
                f,
                "with `maxmemory-policy {policy}` this server deletes locks when its memory is full: set `noeviction`"
            ),
            Self::NotChecked { reason } => {
                write!(f, "version, role and eviction policy were not checked: {reason}")
            }
        }
    }
}

/// Checks the server behind a fresh backend.
pub(crate) async fn run(backend: RedisBackend) -> Result<RedisBackend, LockError> {
    let warnings = match backend.server_info().await {
        Ok(text) => judge(&Info::read(&text))?,
        Err(error) if error.kind() == BackendErrorKind::Denied => {
            vec![ConnectWarning::NotChecked { reason: error.to_string() }]
        }
        Err(error) => return Err(error.into()),
    };
    backend.probe(Keys::reserved(&format!("check:{}", ProcessId::random()))).await?;
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    Ok(backend.with_warnings(warnings))
}

/// What `INFO` says: lines of `name:value`.
struct Info<'a>(HashMap<&'a str, &'a str>);

impl<'a> Info<'a> {
    fn read(text: &'a str) -> Self {
        Self(text.lines().filter_map(|line| line.trim_end().split_once(':')).collect())
    }

    fn get(&self, name: &str) -> &'a str {
        self.0.get(name).copied().unwrap_or_default()
    }
}

fn judge(info: &Info<'_>) -> Result<Vec<ConnectWarning>, LockError> {
    let refuse = |why: String| {
        let message = format!("connect to redis: {why}");
        Err(BackendError::new(BackendErrorKind::Misconfigured, Applied::No, message).into())
    };
    match info.get("redis_mode") {
        "sentinel" => {
            return refuse("this is a sentinel: give the address of the master that it watches".into());
        }
        "cluster" => return refuse("this is a member of a Redis Cluster, which is not supported".into()),
        _ => {}
    }
    if info.get("role") == "slave" {
        return refuse("this is a replica: give the address of its master".into());
    }
    let version = info.get("redis_version");
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
    if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < OLDEST {
        let (major, minor) = OLDEST;
        return refuse(format!("version {version:?} is too old: use {major}.{minor} or later"));
    }
    let (limit, policy) = (info.get("maxmemory"), info.get("maxmemory_policy"));
    match limit != "0" && policy != "noeviction" && !policy.is_empty() {
        true => Ok(vec![ConnectWarning::Evicts { policy: policy.to_owned() }]),
        false => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINE: &str =
        "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrole:master\r\nmaxmemory:0\r\n";

    fn judged(text: &str) -> Result<Vec<ConnectWarning>, String> {
        judge(&Info::read(text))
            .map_err(|error| error.backend_error().expect("the server's fault").to_string())
    }

    #[test]
    fn a_plain_master_is_fine() {
        assert_eq!(judged(FINE), Ok(vec![]));
        assert_eq!(judged(&FINE.replace("7.0.15", "6.2.0")), Ok(vec![]));
        assert_eq!(judged(&FINE.replace("7.0.15", "10.1.0")), Ok(vec![]));
    }

    #[test]
    fn what_cannot_keep_locks_is_refused_by_name() {
        for (from, to, says) in [
            ("7.0.15", "6.0.16", "too old"),
            ("7.0.15", "", "too old"),
            ("standalone", "sentinel", "sentinel"),
            ("standalone", "cluster", "Cluster"),
            ("master", "slave", "replica"),
        ] {
            let error = judged(&FINE.replace(from, to)).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn eviction_is_warned_of_where_it_can_happen() {
        let evicts = FINE.replace("maxmemory:0", "maxmemory:1000000\r\nmaxmemory_policy:allkeys-lru");
        assert_eq!(judged(&evicts), Ok(vec![ConnectWarning::Evicts { policy: "allkeys-lru".into() }]));
        assert_eq!(judged(&evicts.replace("1000000", "0")), Ok(vec![]));
        assert_eq!(judged(&evicts.replace("allkeys-lru", "noeviction")), Ok(vec![]));
    }
}
