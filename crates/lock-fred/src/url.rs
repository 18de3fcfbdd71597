//! Addresses: a URL becomes a configuration of the client, or one sentence that says what is wrong with it. The
//! sentence never repeats the URL, which may have a password.

use crate::{backend::RedisBackend, builder::RedisBackendBuilder};
use async_trait::async_trait;
use fred::types::config::{Config, ServerConfig};
use lock_core::{Connector, LockError, Store};
use lock_ledger::{LedgerConnector, RunLedger};
use percent_encoding::percent_decode_str;
use std::sync::Arc;
use url::{Host, Url};

const PORT: u16 = 6379;

/// The connector for Redis: `Connectors::default().with(lock_fred::Redis).connect("redis://…")`.
///
/// | URL | is |
/// | --- | --- |
/// | `redis://[user:password@]host[:port][/database]` | TCP; port 6379 and database 0 by default |
/// | `rediss://…` | the same over TLS, with the feature `tls` |
/// | `redis+unix:///path/of/socket[?db=database&user=user&pass=password]` | a Unix socket |
///
/// A password without a user is written `:password@`. Special characters in user and password are percent-encoded
/// (`%40` for `@`, `%2F` for `/`).
///
/// `rediss://` trusts the system's authorities. `?authority=/ca.pem` trusts those of a PEM file instead;
/// `&certificate=/client.pem&key=/client.key` shows a client certificate.
#[derive(Debug, Clone, Copy)]
pub struct Redis;

#[async_trait]
impl Connector for Redis {
    fn schemes(&self) -> &[&'static str] {
        &["redis", "rediss", "redis+unix"]
    }

    async fn connect(&self, url: &str) -> Result<Store, LockError> {
        Ok(RedisBackend::connect(url).await?.into())
    }
}

#[async_trait]
impl LedgerConnector for Redis {
    async fn connect_with_ledger(&self, url: &str) -> Result<(Store, Arc<dyn RunLedger>), LockError> {
        let redis = RedisBackend::connect(url).await?;
        Ok((redis.clone().into(), Arc::new(redis)))
    }
}

/// Reads a URL.
pub(crate) fn parse(text: &str) -> Result<RedisBackendBuilder, LockError> {
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
            Ok(RedisBackendBuilder::from_config(tcp(&url)?))
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

fn tcp(url: &Url) -> Result<Config, LockError> {
    let host = match url.host() {
        Some(Host::Ipv6(address)) => address.to_string(),
        Some(host) => host.to_string(),
        None => return Err(refused("it has no host: write `redis://host:port`")),
    };
    let path = url.path().trim_start_matches('/');
    let database = if path.is_empty() { None } else { Some(database(path)?) };
    let server = ServerConfig::new_centralized(host, url.port().unwrap_or(PORT));
    credentials(url, Config { server, database, ..Config::default() })
}

fn unix(url: &Url) -> Result<RedisBackendBuilder, LockError> {
    if url.host().is_some_and(|host| !host.to_string().is_empty()) {
        return Err(refused("a socket has a path and no host: write `redis+unix:///path/of/socket`"));
    }
    let path = decoded(url.path())?;
    if path.len() < 2 {
        return Err(refused("it has no path: write `redis+unix:///path/of/socket`"));
    }
    let [number, username, password] = options(url, ["db", "user", "pass"])?;
    let database = number.as_deref().map(database).transpose()?;
    let server = ServerConfig::Unix { path: path.into() };
    let config = with_credentials(Config { server, database, ..Config::default() }, username, password)?;
    Ok(RedisBackendBuilder::from_config(config))
}

#[cfg(feature = "tls")]
fn secured(url: &Url) -> Result<RedisBackendBuilder, LockError> {
    use crate::tls::Tls;
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
    Ok(RedisBackendBuilder::from_config(tcp(url)?).tls(tls))
}

#[cfg(not(feature = "tls"))]
fn secured(_: &Url) -> Result<RedisBackendBuilder, LockError> {
    Err(refused("this program was built without TLS: turn on the feature `tls` of lock-fred"))
}

fn credentials(url: &Url, config: Config) -> Result<Config, LockError> {
    let given = |text: &str| if text.is_empty() { Ok(None) } else { decoded(text).map(Some) };
    with_credentials(config, given(url.username())?, given(url.password().unwrap_or_default())?)
}

fn with_credentials(
    config: Config,
    username: Option<String>,
    password: Option<String>,
) -> Result<Config, LockError> {
    if username.is_some() && password.is_none() {
        return Err(refused("it has a user and no password: a password alone is written `:password@`"));
    }
    Ok(Config { username, password, ..config })
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
