//! A round-robin reverse proxy over the shops. It streams bodies in both directions.
//!
//! A request goes to the next server that accepts a connection. Once a byte of it may have been delivered it is never
//! sent again: a repeated `POST` is the client's decision, with its `Idempotency-Key`.

mod forward;
mod servers;

pub use servers::{Servers, Share};

use axum::{Router, routing::any, serve::ListenerExt};
use std::{io, net::SocketAddr};
use tokio::{net::TcpListener, task::JoinHandle};

/// A running balancer. Dropping it closes its port.
#[derive(Debug)]
pub struct Balancer {
    address: SocketAddr,
    servers: Servers,
    task: JoinHandle<io::Result<()>>,
}

impl Balancer {
    /// Listens at `address` and forwards to `servers`, a list that may change at any time.
    ///
    /// # Errors
    /// That of the system when it cannot listen there.
    pub async fn start(address: SocketAddr, servers: Servers) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        // Small answers would wait for the client's delayed acknowledgements.
        let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
        let router = Router::new().fallback(any(forward::forward)).with_state(servers.clone());
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        let task = tokio::spawn(axum::serve(listener, service).into_future());
        Ok(Self { address, servers, task })
    }

    /// The address at which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The servers behind it.
    #[must_use]
    pub fn servers(&self) -> &Servers {
        &self.servers
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.task.abort();
    }
}
