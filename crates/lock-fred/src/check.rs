//! What is checked before the first lock: that the server can keep locks, and that we may do all that they need.

use crate::{backend::RedisBackend, error::is_cluster_down, keys::Keys};
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
    let probe = backend.probe(Keys::reserved(&format!("check:{}", ProcessId::random()))).await;
    probe.map_err(|error| if is_cluster_down(&error) { refusal(CLUSTER) } else { error })?;
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

fn refusal(why: &str) -> BackendError {
    let message = format!("connect to redis: {why}");
    BackendError::new(BackendErrorKind::Misconfigured, Applied::No, message)
}

const CLUSTER: &str = "this is a member of a Redis Cluster, which is not supported: use a standalone server";

fn judge(info: &Info<'_>) -> Result<Vec<ConnectWarning>, LockError> {
    let refuse = |why: String| Err(refusal(&why).into());
    // Valkey has a word of its own since version 8.
    let modes = [info.get("redis_mode"), info.get("server_mode")];
    if modes.contains(&"sentinel") {
        return refuse("this is a sentinel: give the address of the master that it watches".into());
    }
    if modes.contains(&"cluster") || info.get("cluster_enabled") == "1" {
        return refuse(CLUSTER.into());
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
mod tests;
