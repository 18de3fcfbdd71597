//! Addresses: a URL becomes a server, a login and settings of TLS, or one sentence that says what is wrong with it. The
//! sentence never repeats the URL, which may have a password.

use crate::client::{Credentials, Endpoint, Server, Tls};
use lock_core::LockError;
use percent_encoding::percent_decode_str;
use url::{Host, Url};

const PORT: u16 = 6379;

/// The schemes that [`Address::parse`] reads.
pub const SCHEMES: [&str; 3] = ["redis", "rediss", "redis+unix"];

/// Where a Redis is, and how to log in there.
///
/// | URL | is |
/// | --- | --- |
/// | `redis://[user:password@]host[:port][/database]` | TCP; port 6379 and database 0 by default |
/// | `rediss://…` | the same over TLS, if the client was built with it |
/// | `redis+unix:///path/of/socket[?db=database&user=user&pass=password]` | a Unix socket |
///
/// A password without a user is written `:password@`. Special characters in user and password are percent-encoded
/// (`%40` for `@`, `%2F` for `/`).
///
/// `rediss://` trusts the system's authorities. `?authority=/ca.pem` trusts those of a PEM file instead;
/// `&certificate=/client.pem&key=/client.key` shows a client certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The server and its database.
    pub endpoint: Endpoint,
    /// The login.
    pub credentials: Credentials,
    /// The settings of TLS; without them the connections are not secured.
    pub tls: Option<Tls>,
}

impl Address {
    /// Reads a URL, and the PEM files that it names.
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidUrl`](lock_core::LockErrorKind::InvalidUrl); the text says what to change and never has the
    /// URL, which may have a password.
    pub fn parse(url: &str) -> Result<Self, LockError> {
        parse(url)
    }
}

fn parse(text: &str) -> Result<Address, LockError> {
    // The parser's own error may quote the text.
    if text.trim().is_empty() {
        return Err(refused("it is empty: write `redis://host:port`"));
    }
    if !text.contains("://") {
        return Err(refused(
            "it has no scheme: write `redis://` before host and port, for example `redis://localhost:6379`",
        ));
    }
    let url = Url::parse(text).map_err(|_| {
        refused("it is no URL: percent-encode special characters in user and password (`/` is `%2F`, `@` is `%40`, `#` is `%23`)")
    })?;
    if url.fragment().is_some() {
        return Err(refused("it has a `#`: in a password, write it as `%23`"));
    }
    match url.scheme() {
        "redis" => {
            let [] = options(&url, [])?;
            tcp(&url, None)
        }
        "rediss" => secured(&url),
        "redis+unix" => unix(&url),
        "unix" => Err(refused("write `redis+unix:///path/of/socket`")),
        other if other.contains("sentinel") || other.contains("cluster") => {
            Err(refused("Sentinel and Cluster are not supported: give the address of one standalone server"))
        }
        _ => Err(refused("its scheme is none of `redis`, `rediss` and `redis+unix`")),
    }
}

fn tcp(url: &Url, tls: Option<Tls>) -> Result<Address, LockError> {
    let host = match url.host() {
        Some(Host::Ipv6(address)) => address.to_string(),
        Some(host) => host.to_string(),
        None => return Err(refused("it has no host: write `redis://host:port`")),
    };
    let path = url.path().trim_start_matches('/');
    let database = if path.is_empty() { None } else { Some(database(path)?) };
    let server = Server::Tcp { host, port: url.port().unwrap_or(PORT) };
    let given = |text: &str| if text.is_empty() { Ok(None) } else { decoded(text).map(Some) };
    let credentials = credentials(given(url.username())?, given(url.password().unwrap_or_default())?)?;
    Ok(Address { endpoint: Endpoint { server, database }, credentials, tls })
}

fn unix(url: &Url) -> Result<Address, LockError> {
    if url.host().is_some_and(|host| !host.to_string().is_empty()) {
        return Err(refused("a socket has a path and no host: write `redis+unix:///path/of/socket`"));
    }
    let path = decoded(url.path())?;
    if path.len() < 2 {
        return Err(refused("it has no path: write `redis+unix:///path/of/socket`"));
    }
    let [number, username, password] = options(url, ["db", "user", "pass"])?;
    let database = number.as_deref().map(database).transpose()?;
    let endpoint = Endpoint { server: Server::Unix { path: path.into() }, database };
    Ok(Address { endpoint, credentials: credentials(username, password)?, tls: None })
}

fn secured(url: &Url) -> Result<Address, LockError> {
    let read = |path: &str| {
        std::fs::read(path).map_err(|error| refused(&format!("the file `{path}` cannot be read ({error})")))
    };
    let [authority, certificate, key] = options(url, ["authority", "certificate", "key"])?;
    let mut tls = match authority {
        Some(path) => Tls::authority(read(&path)?),
        None => Tls::system(),
    };
    match (certificate, key) {
        (Some(certificate), Some(key)) => tls = tls.client_certificate(read(&certificate)?, read(&key)?),
        (None, None) => {}
        _ => return Err(refused("a client certificate needs both `certificate` and `key`")),
    }
    tcp(url, Some(tls))
}

fn credentials(username: Option<String>, password: Option<String>) -> Result<Credentials, LockError> {
    if username.is_some() && password.is_none() {
        return Err(refused("it has a user and no password: a password alone is written `:password@`"));
    }
    Ok(Credentials { username, password })
}

fn database(number: &str) -> Result<u8, LockError> {
    number.parse().map_err(|_| {
        refused(
            "what stands for the database is no number from 0 to 255; in a password, `/` is written `%2F`",
        )
    })
}

fn decoded(text: &str) -> Result<String, LockError> {
    let text = percent_decode_str(text).decode_utf8();
    Ok(text.map_err(|_| refused("what is percent-encoded in it is not UTF-8"))?.into_owned())
}

/// The values of the options that this scheme knows, in their order; others are refused, or a typing error would
/// silently connect without what it asked for.
fn options<const N: usize>(url: &Url, known: [&str; N]) -> Result<[Option<String>; N], LockError> {
    let mut values = [const { None }; N];
    // Percent-decoding alone: in the form encoding of web pages a `+` would become a blank.
    for option in url.query().unwrap_or_default().split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let Some(at) = known.iter().position(|known| *known == name) else {
            return Err(refused(&match N {
                0 => format!("`{}://` has no options after a `?`", url.scheme()),
                _ => format!("it has an unknown option: `{}://` knows {}", url.scheme(), known.join(", ")),
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
