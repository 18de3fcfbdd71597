//! URLs with several hosts, which the URL parser does not know: it gets one host at a time.

use super::{
    Address, PORT, SENTINEL_PORT, TLS_OPTIONS, credentials, database, decoded, login, options, refused,
    server, single, tls,
};
use crate::{
    client::{Credentials, Server},
    topology::{SentinelAddress, Topology},
};
use lock_core::LockError;
use url::Url;

/// `[user:password@]host[:port],…/master[/database][?options]`, after the scheme.
pub(super) fn sentinel(scheme: &str, text: &str) -> Result<Address, LockError> {
    let Several { servers, credentials: at_master, path, query } =
        Several::read(scheme, text, SENTINEL_PORT)?;
    let (master, number) = path.split_once('/').unwrap_or((&path, ""));
    if master.is_empty() {
        return Err(refused(
            "it has no name of a master: write `redis-sentinel://host,host,host/name`, where the sentinels have a line \
             `sentinel monitor name …`",
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

/// `[user:password@]host[:port],…[/][?options]`, after the scheme.
pub(super) fn cluster(scheme: &str, text: &str) -> Result<Address, LockError> {
    let Several { servers, credentials, path, query } = Several::read(scheme, text, PORT)?;
    if !path.is_empty() {
        return Err(refused("a cluster has one database: leave out what stands after the hosts"));
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

/// A URL that was taken apart.
struct Several {
    servers: Vec<Server>,
    credentials: Credentials,
    /// Without the slash at its front.
    path: String,
    /// A URL that has only the options.
    query: Url,
}

impl Several {
    fn read(scheme: &str, text: &str, default_port: u16) -> Result<Self, LockError> {
        let (text, query) = text.split_once('?').unwrap_or((text, ""));
        let (authority, path) = text.split_once('/').unwrap_or((text, ""));
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (format!("{user}@"), hosts),
            None => (String::new(), authority),
        };
        let (mut servers, mut credentials) = (Vec::new(), Credentials::default());
        for host in hosts.split(',') {
            if host.is_empty() {
                return Err(refused("it has no host between two commas, or none at all"));
            }
            let url = single(&format!("{scheme}://{user}{host}"))?;
            servers.push(server(&url, default_port)?);
            credentials = login(&url)?;
        }
        let query = single(&format!("{scheme}://options?{query}"))?;
        // Also a `#`, which is refused.
        single(&format!("{scheme}://path/{path}"))?;
        Ok(Self { servers, credentials, path: path.to_owned(), query })
    }
}
