//! A round-robin reverse proxy for the shops. It streams bodies in both directions.
//!
//! A request goes to the next server that accepts a connection. The balancer never resends a
//! request that may have been partly delivered. Only the client can repeat a `POST`, with its
//! `Idempotency-Key`.

mod forward;
mod servers;

pub use servers::{Servers, Share};

use axum::{Router, routing::any, serve::ListenerExt};
use std::{io, net::SocketAddr};
use tokio::{net::TcpListener, task::JoinHandle};

/// A running balancer. Dropping it closes the port.
#[derive(Debug)]
pub struct Balancer {
    address: SocketAddr,
    servers: Servers,
    task: JoinHandle<io::Result<()>>,
}

impl Balancer {
    /// Listens on `address` and forwards to `servers`. The list may change at any time.
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound.
    pub async fn start(address: SocketAddr, servers: Servers) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        // With Nagle's algorithm, small responses would wait for the client's delayed
        // acknowledgements.
        let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
        let router = Router::new().fallback(any(forward::forward)).with_state(servers.clone());
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        let task = tokio::spawn(axum::serve(listener, service).into_future());
        Ok(Self { address, servers, task })
    }

    /// Returns the address on which the balancer listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the servers behind the balancer.
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
