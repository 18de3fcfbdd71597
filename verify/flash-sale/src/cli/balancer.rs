//! `balancer`: distributes requests over shops.

use super::Ended;
use crate::balancer::{self, Servers};
use clap::Args;
use serde_json::json;
use std::{io::Write, net::SocketAddr};

/// Options for the `balancer` command.
#[derive(Debug, Clone, Args)]
pub struct Balancer {
    /// Address to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,

    /// Address of a shop; may be repeated
    #[arg(long = "server", value_name = "ADDRESS", required = true)]
    pub servers: Vec<SocketAddr>,
}

impl Balancer {
    /// Forwards requests until this future is dropped. Prints one line of JSON with the balancer's address once it
    /// listens.
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound.
    ///
    /// # Cancel safety
    /// Dropping this closes the port.
    pub async fn run(self, out: &mut (impl Write + Send)) -> Ended {
        let servers = Servers::of(self.servers.into_iter().map(|address| (address.to_string(), address)));
        let balancer = balancer::Balancer::start(self.listen, servers).await?;
        writeln!(out, "{}", json!({ "listening": balancer.address(), "pid": std::process::id() }))?;
        out.flush()?;
        std::future::pending().await
    }
}
