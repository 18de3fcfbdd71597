//! A round-robin reverse proxy for the shops. It streams bodies in both directions.
//!
//! A request goes to the next server that accepts a connection. The balancer never resends a
//! request that may have been partly delivered. Only the client can repeat a `POST`, with its
//! `Idempotency-Key`.

use crate::{
    http_client::{HttpClient, SendError},
    problem::Problem,
};
use axum::{
    Router,
    body::Body,
    extract::{ConnectInfo, Request, State},
    response::{IntoResponse, Response},
    routing::any,
    serve::ListenerExt,
};
use http::{
    HeaderMap, HeaderName, HeaderValue, StatusCode, Uri,
    header::{self, CONNECTION, RETRY_AFTER},
    uri::PathAndQuery,
};
use serde::{Deserialize, Serialize};
use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::{net::TcpListener, task::JoinHandle};

/// Time during which a server that refused a connection is tried last.
const SKIPPED: Duration = Duration::from_millis(200);
/// The header with the client's address.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

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
        let router = Router::new().fallback(any(forward)).with_state(servers.clone());
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

/// A list of servers. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Servers {
    list: Arc<Mutex<Vec<Arc<Server>>>>,
    turn: Arc<AtomicUsize>,
}

/// A server at one address.
#[derive(Debug)]
struct Server {
    name: String,
    client: HttpClient<Body>,
    requests: Arc<AtomicU64>,
    refused: Mutex<Option<Instant>>,
}

/// A server's request count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Name of the server.
    pub name: String,
    /// Number of requests delivered to the server, over all its addresses.
    pub requests: u64,
}

impl Servers {
    /// Creates a list of these servers.
    #[must_use]
    pub fn of(servers: impl IntoIterator<Item = (String, SocketAddr)>) -> Self {
        let list = Self::default();
        servers.into_iter().for_each(|(name, address)| list.set(name, address));
        list
    }

    /// Adds the server `name`. If it is already in the list, changes its address and keeps its request count.
    pub fn set(&self, name: String, address: SocketAddr) {
        let mut list = self.list();
        let known = list.iter().position(|server| server.name == name);
        let requests = known.map(|index| Arc::clone(&list[index].requests)).unwrap_or_default();
        let server =
            Arc::new(Server { name, client: HttpClient::new(address), requests, refused: Mutex::default() });
        match known {
            Some(index) => list[index] = server,
            None => list.push(server),
        }
    }

    /// Returns the request count of each server, in the order in which they were added.
    #[must_use]
    pub fn shares(&self) -> Vec<Share> {
        let share = |server: &Arc<Server>| Share {
            name: server.name.clone(),
            requests: server.requests.load(Relaxed),
        };
        self.list().iter().map(share).collect()
    }

    /// Returns all servers in the order in which a request tries them: round robin, followed by those that recently
    /// refused connections.
    fn in_turn(&self) -> Vec<Arc<Server>> {
        let servers = self.list().clone();
        let (skipped, mut servers): (Vec<_>, Vec<_>) =
            servers.into_iter().partition(|server| server.is_skipped());
        if !servers.is_empty() {
            let first = self.turn.fetch_add(1, Relaxed) % servers.len();
            servers.rotate_left(first);
        }
        servers.extend(skipped);
        servers
    }

    fn list(&self) -> MutexGuard<'_, Vec<Arc<Server>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    fn delivered(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    fn refused(&self) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn is_skipped(&self) -> bool {
        let refused = *self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.is_some_and(|at| at.elapsed() < SKIPPED)
    }
}

async fn forward(
    State(servers): State<Servers>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    mut request: Request,
) -> Response {
    let path = request.uri().path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
    *request.uri_mut() = Uri::from(path);
    remove_hop_by_hop(request.headers_mut());
    if let Ok(client) = HeaderValue::try_from(client.ip().to_string()) {
        request.headers_mut().append(FORWARDED_FOR, client);
    }
    for server in servers.in_turn() {
        match server.client.send(request).await {
            Ok(mut response) => {
                server.delivered();
                remove_hop_by_hop(response.headers_mut());
                return response.map(Body::new);
            }
            Err(SendError::NotSent { request: unsent, .. }) => {
                server.refused();
                request = *unsent;
            }
            Err(SendError::Lost(_)) => {
                server.delivered();
                let detail = "the connection to the server was lost: the request may have been executed";
                return Problem::new(StatusCode::BAD_GATEWAY, "bad-gateway", detail).into_response();
            }
        }
    }
    let detail = "no server accepts connections: the request was not delivered";
    let refusal = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "no-server", detail);
    ([(RETRY_AFTER, "1")], refusal).into_response()
}

/// Removes the headers that apply to one connection only (RFC 9110, 7.6.1), and those that `Connection` names.
fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let always = [
        CONNECTION,
        HeaderName::from_static("keep-alive"),
        HeaderName::from_static("proxy-connection"),
        header::PROXY_AUTHENTICATE,
        header::PROXY_AUTHORIZATION,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
    ];
    for name in named.into_iter().chain(always) {
        headers.remove(name);
    }
}
