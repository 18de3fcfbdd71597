//! The fred client of the floors: one connection for commands, and scripts that are loaded in advance.

use crate::Result;
use fred::{
    clients::Client,
    interfaces::ClientLike,
    types::{Builder, ClusterHash, CustomCommand, FromValue, config::Config},
};
use std::sync::atomic::{AtomicU64, Ordering};
use uuid::Uuid;

/// The lease of a floor in milliseconds, equal to that of our default options.
pub(crate) const LEASE_MS: &str = "30000";

/// Opens a connection.
pub(crate) async fn open(url: &str) -> Result<Client> {
    let mut builder = Builder::from_config(Config::from_url(url)?);
    builder.with_connection_config(|connection| connection.tcp.nodelay = Some(true));
    let client = builder.build()?;
    client.init().await?;
    Ok(client)
}

/// The digest of a script that the server has loaded.
#[derive(Debug, Clone)]
pub(crate) struct Script(String);

impl Script {
    pub(crate) async fn load(client: &Client, source: &str) -> Result<Self> {
        let load = CustomCommand::new_static("SCRIPT", ClusterHash::FirstKey, false);
        Ok(Self(client.custom(load, vec!["LOAD", source]).await?))
    }

    /// Runs the script.
    pub(crate) async fn run<R: FromValue>(
        &self,
        client: &Client,
        keys: &[&str],
        arguments: &[&str],
    ) -> Result<R> {
        let evalsha = CustomCommand::new_static("EVALSHA", ClusterHash::FirstKey, false);
        let count = keys.len().to_string();
        let mut words = vec![self.0.as_str(), &count];
        words.extend(keys.iter().chain(arguments));
        Ok(client.custom(evalsha, words).await?)
    }
}

/// Creates the owner ids of a process, one per acquire.
#[derive(Debug)]
pub(crate) struct Owners {
    process: Uuid,
    next: AtomicU64,
}

impl Owners {
    pub(crate) fn new() -> Self {
        Self { process: Uuid::new_v4(), next: AtomicU64::new(0) }
    }

    pub(crate) fn next(&self) -> String {
        format!("{}:{}", self.process, self.next.fetch_add(1, Ordering::Relaxed))
    }
}
