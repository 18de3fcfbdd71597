//! `balancer`: requests go round.

use super::Ended;
use crate::balancer::{self, Servers};
use clap::Args;
use serde_json::json;
use std::{io::Write, net::SocketAddr};

/// Shops behind one address.
#[derive(Debug, Clone, Args)]
pub struct Balancer {
    /// The address to listen at; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,

    /// A shop; may be given several times
    #[arg(long = "server", value_name = "ADDRESS", required = true)]
    pub servers: Vec<SocketAddr>,
}

impl Balancer {
    /// Balances until it is dropped. Prints its address as one line of JSON when it listens.
    ///
    /// # Errors
    /// An address that cannot be listened at.
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
