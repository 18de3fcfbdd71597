//! The servers behind a balancer, their order, and their request counts.

use crate::http_client::HttpClient;
use axum::body::Body;
use serde::{Deserialize, Serialize};
use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Time during which a server that refused a connection is tried last.
const SKIPPED: Duration = Duration::from_millis(200);

/// A list of servers. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Servers {
    list: Arc<Mutex<Vec<Arc<Server>>>>,
    turn: Arc<AtomicUsize>,
}

/// A server at one address.
#[derive(Debug)]
pub(super) struct Server {
    name: String,
    pub(super) client: HttpClient<Body>,
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
    pub(super) fn in_turn(&self) -> Vec<Arc<Server>> {
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
    pub(super) fn delivered(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    pub(super) fn refused(&self) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn is_skipped(&self) -> bool {
        let refused = *self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.is_some_and(|at| at.elapsed() < SKIPPED)
    }
}
