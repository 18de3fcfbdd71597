//! Addresses of Redis deployments, and their parsing. A URL becomes a deployment, a login and TLS settings, or an error
//! that describes the problem. The error never quotes the URL, which may contain a password.

use crate::client::{Credentials, Endpoint, Server, Tls};
use lock_core::LockError;
use lock_quorum::MAX_CLOCK_DISTANCE;
use percent_encoding::percent_decode_str;
use std::time::Duration;
use url::{Host, Url};

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26_379;

/// The size of the smallest quorum that survives the loss of a node.
const MIN_NODES: usize = 3;

/// The schemes that [`Address::parse`] accepts.
pub const SCHEMES: [&str; 11] = [
    "redis",
    "rediss",
    "valkey",
    "valkeys",
    "redis+unix",
    "redis-sentinel",
    "rediss-sentinel",
    "redis-cluster",
    "rediss-cluster",
    "redlock",
    "redlocks",
];

/// The address of a Redis deployment, and the login.
///
/// | URL | meaning |
/// | --- | --- |
/// | `redis://[user:password@]host[:port][/database]` | TCP; port 6379 and database 0 by default |
/// | `rediss://…` | the same over TLS, if the client was built with it |
/// | `redis+unix:///path/of/socket[?db=database&user=user&pass=password]` | a Unix socket |
/// | `redis-sentinel://[user:password@]host[:port],…/master[/database]` | the master named by these sentinels; port 26379 by default |
/// | `rediss-sentinel://…` | the same over TLS, to sentinels and master |
/// | `redis-cluster://[user:password@]host[:port],…` | the cluster to which these nodes belong |
/// | `rediss-cluster://…` | the same over TLS |
/// | `redlock://[user:password@]host[:port],…[/database]` | a [quorum](lock_quorum) of these independent masters |
/// | `redlocks://…` | the same over TLS |
///
/// `valkey://` and `valkeys://` mean the same as `redis://` and `rediss://`.
///
/// A password without a user is written `:password@`. Special characters in user and password are percent-encoded
/// (`%40` for `@`, `%2F` for `/`).
///
/// The user and password in a `redis-sentinel://` URL are for the master. Set the login for the
/// sentinels with `?sentinel_user=user&sentinel_pass=password`.
///
/// A `redlock://` URL accepts two options. `?max_lease=30s` sets the longest lease, which must be
/// the same on all clients (a whole number of `ms`, `s`, `m` or `h`; 30 s by default).
/// `&durable=true` [declares](lock_quorum::Member::durable) that no node loses a write that
/// it has acknowledged.
///
/// `rediss://` trusts the system's authorities. `?authority=/ca.pem` trusts those of a PEM file instead;
/// `&certificate=/client.pem&key=/client.key` presents a client certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The deployment.
    pub topology: Topology,
    /// The login.
    pub credentials: Credentials,
    /// The TLS settings. Without them the connections are not encrypted.
    pub tls: Option<Tls>,
}

/// The deployment behind an [`Address`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Topology {
    /// One server.
    Standalone(Endpoint),
    /// The master reported by the sentinels. If another server is promoted, the connections move to
    /// it.
    Sentinel(SentinelAddress),
    /// A cluster, given by some of its nodes. The others are discovered through them.
    Cluster(Vec<Server>),
    /// Independent servers that decide by majority; see
    /// [`connect_quorum`](crate::RedisBackendBuilder::connect_quorum).
    Quorum(QuorumAddress),
}

/// The nodes and settings of a quorum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumAddress {
    /// The nodes, each an independent master.
    pub nodes: Vec<Endpoint>,
    /// The longest lease, which must be the same on all clients. `None` means 30 s.
    pub max_lease: Option<Duration>,
    /// `true` declares that no node loses a write that it has acknowledged; see
    /// [`Member::durable`](lock_quorum::Member::durable).
    pub durable: bool,
}

/// Sentinels and the master they monitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentinelAddress {
    /// The sentinels.
    pub sentinels: Vec<Server>,
    /// The name of the master, as in the `sentinel monitor` line of the sentinels' configuration.
    pub master: String,
    /// The login for the sentinels. The master has a separate login.
    pub credentials: Credentials,
    /// The database on the master. `None` means database 0.
    pub database: Option<u8>,
}

impl Address {
    /// Parses a URL and reads the PEM files that it names.
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidUrl`](lock_core::LockErrorKind::InvalidUrl) if the URL is malformed, or if a file that
    /// it names cannot be read. The text says what to change. It never contains the URL, which may include a password.
    pub fn parse(url: &str) -> Result<Self, LockError> {
        // The URL parser's error may quote the text.
        if url.trim().is_empty() {
            return Err(refused("it is empty; write `redis://host:port`"));
        }
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(refused(
                "it has no scheme; write `redis://` before the host and port, for example `redis://localhost:6379`",
            ));
        };
        match scheme.to_ascii_lowercase().as_str() {
            scheme @ ("redis-sentinel" | "rediss-sentinel") => return sentinel(scheme, rest),
            scheme @ ("redis-cluster" | "rediss-cluster") => return cluster(scheme, rest),
            scheme @ ("redlock" | "redlocks") => return quorum(scheme, rest),
            _ => {}
        }
        let url = single(url)?;
        match url.scheme() {
            "redis" | "valkey" => {
                let [] = options(&url, [])?;
                tcp(&url, None)
            }
            "rediss" | "valkeys" => {
                let tls = tls(options(&url, TLS_OPTIONS)?)?;
                tcp(&url, Some(tls))
            }
            "redis+unix" => unix(&url),
            "unix" => Err(refused("unknown scheme; write `redis+unix:///path/of/socket`")),
            _ => Err(refused(
                "unknown scheme; use `redis`, `rediss`, `redis+unix`, `redis-sentinel`, `redis-cluster`, `redlock`, or \
                 a TLS variant of these",
            )),
        }
    }
}

/// Parses a URL with one host.
fn single(text: &str) -> Result<Url, LockError> {
    let url = Url::parse(text).map_err(|error| {
        refused(match error {
            url::ParseError::InvalidPort => "its port is not a number from 0 to 65535; if that text is part of a \
                password, percent-encode special characters (`/` is `%2F`, `@` is `%40`, `#` is `%23`)",
            _ => "it is not a URL; percent-encode special characters in the user and password (`/` is `%2F`, `@` is \
                `%40`, `#` is `%23`)",
        })
    })?;
    match url.fragment() {
        Some(_) => Err(refused("it has a `#`; in a password, write it as `%23`")),
        None => Ok(url),
    }
}

fn tcp(url: &Url, tls: Option<Tls>) -> Result<Address, LockError> {
    let server = server(url, PORT)?;
    let path = url.path().trim_start_matches('/');
    let database = if path.is_empty() { None } else { Some(database(path)?) };
    let topology = Topology::Standalone(Endpoint { server, database });
    Ok(Address { topology, credentials: login(url)?, tls })
}

fn server(url: &Url, default_port: u16) -> Result<Server, LockError> {
    let host = match url.host() {
        Some(Host::Ipv6(address)) => address.to_string(),
        Some(host) => host.to_string(),
        None => return Err(refused("it has no host; write `redis://host:port`")),
    };
    Ok(Server::Tcp { host, port: url.port().unwrap_or(default_port) })
}

fn login(url: &Url) -> Result<Credentials, LockError> {
    let given = |text: &str| if text.is_empty() { Ok(None) } else { decoded(text).map(Some) };
    credentials(given(url.username())?, given(url.password().unwrap_or_default())?)
}

fn unix(url: &Url) -> Result<Address, LockError> {
    if url.host().is_some_and(|host| !host.to_string().is_empty()) {
        return Err(refused("a socket has a path and no host; write `redis+unix:///path/of/socket`"));
    }
    let path = decoded(url.path())?;
    if path.len() < 2 {
        return Err(refused("it has no path; write `redis+unix:///path/of/socket`"));
    }
    let [number, username, password] = options(url, ["db", "user", "pass"])?;
    let database = number.as_deref().map(database).transpose()?;
    let endpoint = Endpoint { server: Server::Unix { path: path.into() }, database };
    let topology = Topology::Standalone(endpoint);
    Ok(Address { topology, credentials: credentials(username, password)?, tls: None })
}

/// The options of URLs with TLS.
const TLS_OPTIONS: [&str; 3] = ["authority", "certificate", "key"];

fn tls([authority, certificate, key]: [Option<String>; 3]) -> Result<Tls, LockError> {
    let read = |path: &str| {
        std::fs::read(path).map_err(|error| refused(&format!("the file `{path}` cannot be read ({error})")))
    };
    let tls = match authority {
        Some(path) => Tls::authority(read(&path)?),
        None => Tls::system(),
    };
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(tls.client_certificate(read(&certificate)?, read(&key)?)),
        (None, None) => Ok(tls),
        _ => Err(refused("a client certificate needs both `certificate` and `key`")),
    }
}

fn credentials(username: Option<String>, password: Option<String>) -> Result<Credentials, LockError> {
    if username.is_some() && password.is_none() {
        return Err(refused(
            "it has a user but no password; if the text is meant as a password, write `:password@`, and for a user \
             that needs none (`nopass`) write any password",
        ));
    }
    Ok(Credentials { username, password })
}

fn database(number: &str) -> Result<u8, LockError> {
    number.parse().map_err(|_| {
        refused("the database must be a number from 0 to 255; in a password, write `/` as `%2F`")
    })
}

fn decoded(text: &str) -> Result<String, LockError> {
    let text = percent_decode_str(text).decode_utf8();
    Ok(text.map_err(|_| refused("percent-encoded text must be UTF-8"))?.into_owned())
}

/// Returns the values of the options that this scheme accepts, in order. Other options are rejected, since a misspelt
/// one would otherwise be silently ignored.
fn options<const N: usize>(url: &Url, known: [&str; N]) -> Result<[Option<String>; N], LockError> {
    let mut values = [const { None }; N];
    // Only percent-decoding is applied: form decoding would turn a `+` into a space.
    for option in url.query().unwrap_or_default().split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let Some(at) = known.iter().position(|known| *known == name) else {
            return Err(refused(&match N {
                0 => format!("`{}://` does not accept options after a `?`", url.scheme()),
                _ => format!("it has an unknown option; `{}://` accepts {}", url.scheme(), known.join(", ")),
            }));
        };
        values[at] = Some(decoded(value)?);
    }
    Ok(values)
}

fn refused(why: &str) -> LockError {
    LockError::invalid_url(why)
}

/// Parses `[user:password@]host[:port],…/master[/database][?options]`, the part after the scheme.
fn sentinel(scheme: &str, text: &str) -> Result<Address, LockError> {
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
fn cluster(scheme: &str, text: &str) -> Result<Address, LockError> {
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
fn quorum(scheme: &str, text: &str) -> Result<Address, LockError> {
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

#[cfg(test)]
mod tests;
