//! Checks made before the first lock is acquired: that the server can store locks, and that the user has the required
//! permissions.

use crate::{
    client::{Client, Command, Connection, Info, PubSub, Reply, printable},
    clock::ServerClock,
    connection::{Admission, Delivery, Dialled, ManagedConnection, answered},
    error::{RequestError, misconfigured, unexpected_reply, while_connecting, without_sharded_channels},
    keys::Keys,
    quorum::AcceptedNode,
    script::{self, Words},
    wake::Subscriptions,
};
use futures_util::future::BoxFuture;
use lock_core::{
    backend::{BackendError, BackendErrorKind, ProcessId},
    clock::UtcTime,
};
use std::{
    borrow::Cow,
    fmt,
    pin::pin,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use tokio::time::Instant;

/// The oldest supported server version. `SET … GET` is the newest command that the scripts use.
const OLDEST: (u32, u32) = (6, 2);

/// A server setting that is accepted but can cause locks to be lost.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectWarning {
    /// The server evicts keys, including locks, when its memory is full.
    Evicts {
        /// The server's `maxmemory-policy`.
        policy: String,
    },
    /// Fewer replicas are connected than must acknowledge a lease. No lock is granted until enough
    /// are connected.
    TooFewReplicas {
        /// The number of connected replicas.
        connected: u32,
        /// The number of replicas that must acknowledge.
        wanted: u32,
    },
    /// A master that is disconnected from its replicas keeps accepting writes.
    WritesAlone {
        /// The current settings, or the reason why they are unknown.
        reason: String,
    },
    /// A master of the cluster did not answer. The locks in its slots are unavailable until it does.
    NotConnected {
        /// The address of the master.
        server: String,
        /// The error.
        reason: String,
    },
    /// The user has no permission to run `INFO`, so the server settings were not checked.
    NotChecked {
        /// The error returned by `INFO`.
        reason: String,
    },
}

impl fmt::Display for ConnectWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Evicts { policy } => write!(
                f,
                "this server deletes locks when its memory is full (`maxmemory-policy {policy}`): set \
                 `maxmemory-policy noeviction`"
            ),
            Self::TooFewReplicas { connected, wanted } => write!(
                f,
                "only {connected} of the {wanted} required replicas are connected: no lock is granted until all \
                 {wanted} are connected"
            ),
            Self::WritesAlone { reason } => write!(
                f,
                "a master without replicas keeps accepting writes ({reason}): set `min-replicas-to-write` to at least 1 and \
                 `min-replicas-max-lag` to a third of the shortest lease, at most 10"
            ),
            Self::NotConnected { server, reason } => write!(
                f,
                "the cluster node {server} is not connected, and the locks in its slots are unavailable until it is: \
                 {reason}"
            ),
            Self::NotChecked { reason } => {
                write!(f, "the server's version, role and eviction policy were not checked: {reason}")
            }
        }
    }
}

/// The expected kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// A standalone server, or the master of sentinels.
    Master,
    /// A master in a cluster.
    ClusterNode,
    /// A quorum node, which is an independent master.
    QuorumNode,
}

/// The result of checking a server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    pub(crate) warnings: Vec<ConnectWarning>,
    /// The version, if it is known.
    pub(crate) version: String,
    /// `true` if its cluster has sharded channels.
    pub(crate) is_sharded: bool,
}

/// Checks the server of a new connection. Warnings are logged.
pub(crate) async fn server<T: Connection>(
    dialled: &Dialled<T>,
    expected: Expected,
) -> Result<Checked, BackendError> {
    let checked = match answered("read the server info", pin!(dialled.call(Command::info()))).await {
        Ok(reply) => verify_server(&Info::read(&info(&reply)?), expected)?,
        // A cluster needs `INFO` for the version, which determines whether channels are sharded; a quorum needs it for
        // the run id.
        Err(error) if error.kind() == BackendErrorKind::Denied && expected == Expected::Master => {
            let reason = BackendError::from(error).to_string();
            Checked {
                warnings: vec![ConnectWarning::NotChecked { reason }],
                version: String::new(),
                is_sharded: false,
            }
        }
        Err(error) => return Err(while_connecting(error)),
    };
    for warning in &checked.warnings {
        tracing::warn!("{warning}");
    }
    Ok(checked)
}

/// Tries every command that locks need, using these keys, and reads the server's clock.
pub(crate) async fn rights<C: Client>(
    connection: &ManagedConnection<C>,
    subscriptions: &Subscriptions<C>,
    clock: &ServerClock,
    keys: Keys,
) -> Result<(), RequestError> {
    let dialled = connection.connected("connect").await?;
    subscriptions.probe(keys.channel.clone()).await?;
    let sent = Instant::now();
    clock.learn(sent, commands(&dialled, subscriptions.kind(), keys).await?);
    Ok(())
}

/// Tries every command that locks need, and returns the server's time.
async fn commands<T: Connection>(
    dialled: &Dialled<T>,
    pubsub: PubSub,
    Keys { lock, counter, channel }: Keys,
) -> Result<UtcTime, RequestError> {
    answered("ping", pin!(dialled.call(Command::ping()))).await?;
    let words = [lock, counter, channel, String::new(), Keys::sharded(pubsub).to_owned()];
    let write = |to: &mut Words| to.extend(words.iter().cloned().map(Cow::Owned));
    let sent = Instant::now();
    let probe = script::PROBE.run(dialled, Delivery::Plain, 2, write);
    let reply = answered(script::PROBE.name, pin!(probe)).await?;
    let reply = dialled.read(script::PROBE.name, sent, reply.reply)?;
    let now = reply.now;
    reply.probed().map(|()| now)
}

/// Refuses a member of a cluster that hides its configuration but serves no key.
pub(crate) fn not_in_cluster(error: RequestError) -> BackendError {
    match error.is_cluster_down() {
        true => misconfigured(CLUSTER),
        false => while_connecting(error),
    }
}

/// The checks of a cluster node that connects after the others.
pub(crate) struct LateNode {
    pubsub: PubSub,
    /// Keys in a slot of the node, if it is known to serve one.
    keys: Option<Keys>,
    passed: AtomicBool,
}

impl LateNode {
    pub(crate) fn new(pubsub: PubSub, keys: Option<Keys>) -> Self {
        Self { pubsub, keys, passed: AtomicBool::new(false) }
    }

    async fn checked<T: Connection>(&self, dialled: &Dialled<T>) -> Result<(), BackendError> {
        if self.passed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let Checked { version, is_sharded, .. } = server(dialled, Expected::ClusterNode).await?;
        if self.pubsub == PubSub::Sharded && !is_sharded {
            return Err(without_sharded_channels(&version));
        }
        if let Some(keys) = self.keys.clone() {
            match commands(dialled, self.pubsub, keys).await {
                // The slot is moving.
                Err(error) if error.redirection().is_some() => {}
                checked => checked.map(drop).map_err(while_connecting)?,
            }
        }
        self.passed.store(true, Ordering::Relaxed);
        Ok(())
    }
}

impl<C: Client> Admission<C> for LateNode {
    /// Checks the node, until it has passed once.
    fn check<'a>(&'a self, dialled: &'a Dialled<C::Connection>) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(self.checked(dialled))
    }
}

/// The maximum time, in seconds, within which a master must notice that a replica is gone: a third of the default
/// lease.
const MAX_LAG: i64 = 10;

/// Checks the requirements for acknowledgement by `wanted` replicas. Warnings are logged.
pub(crate) async fn replicas<C: Client>(
    connection: &ManagedConnection<C>,
    wanted: u32,
) -> Result<Vec<ConnectWarning>, BackendError> {
    // Check the permission for `WAIT` before the first lock needs it.
    connection.call("wait for replicas", Command::wait(0, Duration::from_millis(1))).await?;
    let mut warnings = Vec::new();
    if let Ok(reply) = connection.call("read the server info", Command::info()).await {
        let text = info(&reply)?;
        let connected = Info::read(&text).get("connected_slaves").parse().unwrap_or(0);
        if connected < wanted {
            warnings.push(ConnectWarning::TooFewReplicas { connected, wanted });
        }
    }
    let writes_alone = match connection.call("read the settings", Command::config("min-replicas-*")).await {
        Ok(reply) => writes_alone(&reply),
        Err(error) => Some(BackendError::from(error).to_string()),
    };
    warnings.extend(writes_alone.map(|reason| ConnectWarning::WritesAlone { reason }));
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    Ok(warnings)
}

/// Returns the settings if they let a master continue without replicas. `settings` alternates between names and values.
fn writes_alone(settings: &Reply) -> Option<String> {
    let Reply::List(words) = settings else { return Some("the settings cannot be read".to_owned()) };
    let value = |name: &str| {
        let pair = words.chunks(2).find(|pair| pair.first().and_then(Reply::text) == Some(name))?;
        pair.get(1)?.integer()
    };
    let (least, lag) = (value("min-replicas-to-write")?, value("min-replicas-max-lag")?);
    let is_safe = least >= 1 && (1..=MAX_LAG).contains(&lag);
    (!is_safe).then(|| format!("min-replicas-to-write {least}, min-replicas-max-lag {lag}"))
}

/// Returns keys that are not used by any lock.
pub(crate) fn scratch() -> Keys {
    Keys::reserved(&format!("check:{}", ProcessId::random()))
}

fn info(reply: &Reply) -> Result<String, BackendError> {
    match reply {
        Reply::Bytes(text) => Ok(String::from_utf8_lossy(text).into_owned()),
        _ => Err(unexpected_reply("read the server info").into()),
    }
}

const CLUSTER: &str = "this is a Redis Cluster node; write `redis-cluster://`";

/// The first version with sharded channels.
const SHARDED: (u32, u32) = (7, 0);

/// Returns an error if this server cannot store locks.
fn verify_server(info: &Info<'_>, expected: Expected) -> Result<Checked, BackendError> {
    let refuse = |why: &str| Err(misconfigured(why));
    let in_cluster = is_in_cluster(info);
    if let Some(why) = other_kind(info, expected) {
        return refuse(why);
    }
    let version = info.get("redis_version");
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
    let numbers = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if numbers < OLDEST {
        let (major, minor) = OLDEST;
        return refuse(&format!("version {version:?} is too old; use {major}.{minor} or later"));
    }
    let (limit, policy) = (info.get("maxmemory"), info.get("maxmemory_policy"));
    let evicts = limit != "0" && policy != "noeviction" && !policy.is_empty();
    let warnings = evicts.then(|| ConnectWarning::Evicts { policy: printable(policy) });
    let is_sharded = in_cluster && numbers >= SHARDED;
    Ok(Checked { warnings: warnings.into_iter().collect(), version: printable(version), is_sharded })
}

/// Returns the problem if the server is not of the expected kind.
fn other_kind(info: &Info<'_>, expected: Expected) -> Option<&'static str> {
    let is_sentinel = modes(info).contains(&"sentinel");
    let is_replica = info.get("role") == "slave";
    let why = match expected {
        Expected::QuorumNode if is_sentinel => {
            "this is a sentinel, but a quorum node must be an independent master"
        }
        Expected::QuorumNode if is_in_cluster(info) => {
            "this is a Redis Cluster node, but a quorum node must be an independent master"
        }
        Expected::QuorumNode if is_replica => {
            "this is a replica, but a quorum node must be an independent master"
        }
        _ if is_sentinel => {
            "this is a sentinel; write `redis-sentinel://` and, after the addresses, the master's name"
        }
        Expected::Master if is_in_cluster(info) => CLUSTER,
        Expected::ClusterNode if !is_in_cluster(info) => "this is not a cluster node; write `redis://`",
        Expected::Master if is_replica => {
            "this is a replica; use the address of its master, or of the sentinels that monitor it"
        }
        // A cluster node may be a replica for a moment, during a failover.
        Expected::Master | Expected::ClusterNode | Expected::QuorumNode => return None,
    };
    Some(why)
}

/// Returns the values of both mode fields. Valkey has had a second one since version 8.
fn modes<'a>(info: &Info<'a>) -> [&'a str; 2] {
    [info.get("redis_mode"), info.get("server_mode")]
}

fn is_in_cluster(info: &Info<'_>) -> bool {
    modes(info).contains(&"cluster") || info.get("cluster_enabled") == "1"
}

/// Accepts a connection's server as a quorum node, if it can be one.
pub(crate) async fn node<T: Connection>(dialled: &Dialled<T>) -> Result<AcceptedNode, RequestError> {
    let reply = answered("read the server info", pin!(dialled.call(Command::info()))).await?;
    Ok(accept_node(&Info::read(&info(&reply)?))?)
}

fn accept_node(info: &Info<'_>) -> Result<AcceptedNode, BackendError> {
    let checked = verify_server(info, Expected::QuorumNode)?;
    if let [ConnectWarning::Evicts { policy }, ..] = &checked.warnings[..] {
        return Err(misconfigured(&format!(
            "`maxmemory-policy {policy}` evicts leases, and a quorum node must not lose them unnoticed; set \
             `maxmemory-policy noeviction`"
        )));
    }
    let run_id = info.get("run_id");
    if run_id.is_empty() || run_id.contains(char::is_whitespace) {
        return Err(misconfigured(
            "`INFO` reports no run id, which is needed to detect a restart of a quorum node; use another server",
        ));
    }
    Ok(AcceptedNode::new(run_id.to_owned(), info.get("aof_enabled") != "0"))
}

#[cfg(test)]
mod tests;
