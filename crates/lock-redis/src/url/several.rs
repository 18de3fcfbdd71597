//! URLs with several hosts. The URL parser does not support them, so it is given one host at a time.

use super::{
    Address, PORT, SENTINEL_PORT, TLS_OPTIONS, credentials, database, decoded, login, options, refused,
    server, single, tls,
};
use crate::{
    client::{Credentials, Endpoint, Server},
    topology::{QuorumAddress, SentinelAddress, Topology},
};
use lock_core::{LockError, quorum::MAX_CLOCK_DISTANCE};
use std::time::Duration;
use url::Url;

/// The size of the smallest quorum that survives the loss of a node.
const MIN_NODES: usize = 3;

/// Parses `[user:password@]host[:port],…/master[/database][?options]`, the part after the scheme.
pub(super) fn sentinel(scheme: &str, text: &str) -> Result<Address, LockError> {
    let Several { servers, credentials: at_master, path, query } =
        Several::read(scheme, text, SENTINEL_PORT)?;
    let (master, number) = path.split_once('/').unwrap_or((&path, ""));
    if master.is_empty() {
        return Err(refused(
            "it has no master name; write `redis-sentinel://host,host,host/name`, with the name from the sentinels' \
             `sentinel monitor` line",
        ));
    }
    let (tls, user, password) = match scheme.starts_with("redis-") {
        true => {
            let [user, password] = options(&query, ["sentinel_user", "sentinel_pass"])?;
            (None, user, password)
        }
        false => {
            let known = ["authority", "certificate", "key", "sentinel_user", "sentinel_pass"];
            let [authority, certificate, key, user, password] = options(&query, known)?;
            (Some(tls([authority, certificate, key])?), user, password)
        }
    };
    let address = SentinelAddress {
        sentinels: servers,
        master: decoded(master)?,
        credentials: credentials(user, password)?,
        database: if number.is_empty() { None } else { Some(database(number)?) },
    };
    Ok(Address { topology: Topology::Sentinel(address), credentials: at_master, tls })
}

/// Parses `[user:password@]host[:port],…[/][?options]`, the part after the scheme.
pub(super) fn cluster(scheme: &str, text: &str) -> Result<Address, LockError> {
    let Several { servers, credentials, path, query } = Several::read(scheme, text, PORT)?;
    if !path.is_empty() {
        return Err(refused("a cluster has only one database; remove the path after the hosts"));
    }
    let tls = match scheme.starts_with("redis-") {
        true => {
            let [] = options(&query, [])?;
            None
        }
        false => Some(tls(options(&query, TLS_OPTIONS)?)?),
    };
    Ok(Address { topology: Topology::Cluster(servers), credentials, tls })
}

/// Parses `[user:password@]host[:port],…[/database][?options]`, the part after the scheme.
pub(super) fn quorum(scheme: &str, text: &str) -> Result<Address, LockError> {
    let Several { servers, credentials, path, query } = Several::read(scheme, text, PORT)?;
    if servers.len() < MIN_NODES {
        return Err(refused("a quorum needs at least three nodes; write `redlock://host,host,host`"));
    }
    if (1..servers.len()).any(|at| servers[..at].contains(&servers[at])) {
        return Err(refused("duplicate node; each quorum node must be a separate server"));
    }
    let (tls, max_lease, durable) = match scheme {
        "redlock" => {
            let [max_lease, durable] = options(&query, ["max_lease", "durable"])?;
            (None, max_lease, durable)
        }
        _ => {
            let known = ["authority", "certificate", "key", "max_lease", "durable"];
            let [authority, certificate, key, max_lease, durable] = options(&query, known)?;
            (Some(tls([authority, certificate, key])?), max_lease, durable)
        }
    };
    let database = if path.is_empty() { None } else { Some(database(&path)?) };
    let address = QuorumAddress {
        nodes: servers.into_iter().map(|server| Endpoint { server, database }).collect(),
        max_lease: max_lease.as_deref().map(lease).transpose()?,
        durable: match durable.as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(_) => return Err(refused("`durable` must be `true` or `false`")),
        },
    };
    Ok(Address { topology: Topology::Quorum(address), credentials, tls })
}

/// Parses `30s`, `1500ms`, `2m` or `1h`.
fn lease(text: &str) -> Result<Duration, LockError> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let millis: Option<u64> = match unit {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let lease = millis.and_then(|millis| number.parse::<u64>().ok()?.checked_mul(millis));
    let lease = lease.map(Duration::from_millis);
    let lease = lease
        .ok_or_else(|| refused("`max_lease` is not a duration; write, for example, `30s` or `1500ms`"))?;
    match lease > MAX_CLOCK_DISTANCE * 4 {
        true => Ok(lease),
        false => Err(refused("`max_lease` is too short; it must be more than `4s`")),
    }
}

/// The parts of a URL with several hosts.
struct Several {
    servers: Vec<Server>,
    credentials: Credentials,
    /// The path without its leading slash.
    path: String,
    /// A URL that contains only the options.
    query: Url,
}

impl Several {
    fn read(scheme: &str, text: &str, default_port: u16) -> Result<Self, LockError> {
        let (text, query) = text.split_once('?').unwrap_or((text, ""));
        let (authority, path) = text.split_once('/').unwrap_or((text, ""));
        // A `/` in a password would make the rest of it the name of the master, which errors quote.
        if path.contains('@') {
            return Err(refused(
                "it has a `@` after a `/`; percent-encode `/` in the user and password (`%2F`)",
            ));
        }
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (format!("{user}@"), hosts),
            None => (String::new(), authority),
        };
        let (mut servers, mut credentials) = (Vec::new(), Credentials::default());
        for host in hosts.split(',') {
            if host.is_empty() {
                return Err(refused("it has an empty host, or no host at all"));
            }
            let url = single(&format!("{scheme}://{user}{host}"))?;
            servers.push(server(&url, default_port)?);
            credentials = login(&url)?;
        }
        let query = single(&format!("{scheme}://options?{query}"))?;
        // This also refuses a `#`.
        single(&format!("{scheme}://path/{path}"))?;
        Ok(Self { servers, credentials, path: path.to_owned(), query })
    }
}
