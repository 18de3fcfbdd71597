//! What is checked before the first lock: that the server can keep locks, and that we may do all that they need.

use crate::{
    client::{Client, Command, Reply},
    clock::ServerClock,
    connection::ManagedConnection,
    error::{misconfigured, unexpected_reply},
    info::Info,
    keys::Keys,
    script,
    wake::Subscriptions,
};
use lock_core::backend::{BackendError, BackendErrorKind, ProcessId};
use std::fmt;
use tokio::time::Instant;

/// The oldest server whose commands do what the scripts need: `SET … GET` is the youngest of them.
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

/// Checks the server behind fresh connections: what it is, and every command that locks need. Learns its clock.
pub(crate) async fn run<C: Client>(
    connection: &ManagedConnection<C>,
    subscriptions: &Subscriptions<C>,
    clock: &ServerClock,
) -> Result<Vec<ConnectWarning>, BackendError> {
    let warnings = match connection.call("info", Command::info()).await {
        Ok(reply) => verify_server(&Info::read(&info(&reply)?))?,
        Err(error) if error.kind() == BackendErrorKind::Denied => {
            vec![ConnectWarning::NotChecked { reason: BackendError::from(error).to_string() }]
        }
        Err(error) => return Err(error.into()),
    };
    let Keys { lock, counter, channel } = Keys::reserved(&format!("check:{}", ProcessId::random()));
    let probe = async {
        connection.ping("ping").await?;
        subscriptions.probe(channel.clone()).await?;
        let sent = Instant::now();
        let (keys, arguments) = (vec![lock.clone(), counter.clone()], vec![channel.clone(), String::new()]);
        let reply = script::PROBE.run_on(connection, keys, arguments).await?;
        clock.learn(sent, reply.now);
        reply.probed()
    };
    probe.await.map_err(|error| match error.is_cluster_down() {
        true => misconfigured(CLUSTER),
        false => error.into(),
    })?;
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    Ok(warnings)
}

fn info(reply: &Reply) -> Result<String, BackendError> {
    match reply {
        Reply::Bytes(text) => Ok(String::from_utf8_lossy(text).into_owned()),
        _ => Err(unexpected_reply("info").into()),
    }
}

const CLUSTER: &str = "this is a member of a Redis Cluster, which is not supported: use a standalone server";

/// Returns an error if locks cannot be kept there.
fn verify_server(info: &Info<'_>) -> Result<Vec<ConnectWarning>, BackendError> {
    let refuse = |why: String| Err(misconfigured(&why));
    // Valkey has a word of its own since version 8.
    let modes = [info.get("redis_mode"), info.get("server_mode")];
    if modes.contains(&"sentinel") {
        return refuse(
            "this is a sentinel: write `redis-sentinel://` and, after the addresses, the name of the master"
                .into(),
        );
    }
    if modes.contains(&"cluster") || info.get("cluster_enabled") == "1" {
        return refuse(CLUSTER.into());
    }
    if info.get("role") == "slave" {
        return refuse(
            "this is a replica: give the address of its master, or of the sentinels that watch it".into(),
        );
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
