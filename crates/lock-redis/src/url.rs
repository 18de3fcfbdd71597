//! Parsing of addresses. A URL becomes a server, a login and TLS settings, or an error that describes the problem. The
//! error never quotes the URL, which may contain a password.

mod several;

use crate::{
    client::{Credentials, Endpoint, Server, Tls},
    topology::Topology,
};
use lock_core::LockError;
use percent_encoding::percent_decode_str;
use url::{Host, Url};

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26_379;

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
/// | `redlock://[user:password@]host[:port],…[/database]` | a [quorum](lock_core::quorum) of these independent masters |
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
/// `&durable=true` [declares](lock_core::quorum::Member::durable) that no node loses a write that
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

impl Address {
    /// Parses a URL and reads the PEM files that it names.
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidUrl`](lock_core::LockErrorKind::InvalidUrl) if the URL is malformed, or if a file that
    /// it names cannot be read. The text says what to change. It never contains the URL, which may include a password.
    pub fn parse(url: &str) -> Result<Self, LockError> {
        parse(url)
    }
}

fn parse(text: &str) -> Result<Address, LockError> {
    // The URL parser's error may quote the text.
    if text.trim().is_empty() {
        return Err(refused("it is empty; write `redis://host:port`"));
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(refused(
            "it has no scheme; write `redis://` before the host and port, for example `redis://localhost:6379`",
        ));
    };
    match scheme.to_ascii_lowercase().as_str() {
        scheme @ ("redis-sentinel" | "rediss-sentinel") => return several::sentinel(scheme, rest),
        scheme @ ("redis-cluster" | "rediss-cluster") => return several::cluster(scheme, rest),
        scheme @ ("redlock" | "redlocks") => return several::quorum(scheme, rest),
        _ => {}
    }
    let url = single(text)?;
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

#[cfg(test)]
mod tests;
