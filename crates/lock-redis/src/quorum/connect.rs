//! Connecting to quorum nodes. A majority must respond. The other nodes are dialled until they
//! respond.

use super::{
    accepted,
    peers::{Peers, Place},
};
use crate::{
    backend::RedisBackend,
    builder::RedisBackendBuilder,
    check::Expected,
    client::{Client, Command, PubSub, Reply, Server, printable},
    clock::ServerClock,
    connect::{Settings, one_server},
    connection::{Dialer, Home, ManagedConnection, Purpose, Stragglers, Target},
    error::{is_refusal, misconfigured, named},
    route::{OneServer, Route},
    shared::{ForeignStrings, Rules, Shared},
    url::{Address, QuorumAddress, Topology},
    wake::Subscriptions,
};
use futures_util::future::join_all;
use lock_core::{
    LockError, Worker,
    backend::{Applied, BackendError, BackendErrorKind, NodeVote, VoteKind},
};
use lock_quorum::{Member, QuorumBackend};
use std::sync::Arc;

/// A server that may become a node.
struct Candidate<C: Client> {
    server: Server,
    dialer: Arc<Dialer<C>>,
    place: Place,
}

/// The settings that all nodes share.
struct NodeSettings {
    rules: Rules,
    worker: Option<Worker>,
}

impl<C: Client> RedisBackendBuilder<C> {
    /// Connects to the nodes of a `redlock://` address and checks each of them. The options apply to each node;
    /// `replicas` is not allowed. [`lock_quorum`] describes how a majority decides.
    ///
    /// Connecting succeeds if a majority responds. It then waits up to 1 s longer for the remaining
    /// nodes. An unreachable node is dialled until it responds, and its permissions are not tested
    /// in advance.
    ///
    /// The connections live in the [`worker`](Self::worker), or else in the keeper, where a quorum counts
    /// its votes. Also pass the worker to the factory, or use [`connect_store`](Self::connect_store).
    ///
    /// # Errors
    /// Each error names the node. Returns
    /// [`LockErrorKind::Unavailable`](lock_core::LockErrorKind::Unavailable) with the reason of
    /// each node if no majority responds in time. Returns
    /// [`LockErrorKind::Backend`](lock_core::LockErrorKind::Backend) if any node rejects the
    /// password, lacks a permission, has an untrusted certificate, or is a replica, a sentinel, a
    /// cluster node or the same server as another node.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connections.
    pub async fn connect_quorum(self) -> Result<QuorumBackend, LockError> {
        let home = Home::of_quorum(self.worker.clone())?;
        home.clone().run_here(self.open_quorum(home)).await?
    }

    async fn open_quorum(mut self, home: Arc<Home>) -> Result<QuorumBackend, LockError> {
        let (client, login, rules) = (self.checked()?, self.login(), self.rules());
        let Self { address: Address { topology, .. }, connect_timeout: limit, worker, .. } = self;
        let Topology::Quorum(QuorumAddress { nodes, max_lease, durable }) = topology else {
            return Err(misconfigured(
                "this is not the address of a quorum; write `redlock://host,host,host`",
            )
            .into());
        };
        if self.replicas > 0 {
            let why = "`replicas` is not supported for a quorum";
            return Err(misconfigured(why).into());
        }
        if rules.foreign_strings == ForeignStrings::Busy {
            let why = "`foreign_strings_are_busy` is not supported for a quorum";
            return Err(misconfigured(why).into());
        }
        let peers = Arc::<Peers>::default();
        let candidates = nodes.into_iter().enumerate().map(|(position, endpoint)| {
            let (client, login, server) = (client.clone(), login.clone(), endpoint.server.clone());
            let target = Target::Fixed(endpoint);
            let (home, lost, admission) = (home.clone(), None, None);
            let dialer = Dialer { client, home, target, login, limit, lost, admission };
            let place = Place { peers: peers.clone(), position };
            Candidate { server, dialer: Arc::new(dialer), place }
        });
        let settings = NodeSettings { rules, worker };
        let backends = connect(&candidates.collect::<Vec<_>>(), &settings).await?;
        if durable {
            join_all(backends.iter().map(|(server, backend)| warn_of_loss(server, backend))).await;
        }
        let members = backends.into_iter().map(|(server, backend)| {
            let member = Member::new(server.to_string(), backend);
            if durable { member.durable() } else { member }
        });
        let quorum = QuorumBackend::builder(members);
        match max_lease {
            Some(lease) => quorum.max_lease(lease).build(),
            None => quorum.build(),
        }
    }
}

async fn connect<C: Client>(
    candidates: &[Candidate<C>],
    settings: &NodeSettings,
) -> Result<Vec<(Server, RedisBackend<C>)>, BackendError> {
    let majority = candidates.len() / 2 + 1;
    let stragglers = Stragglers::after(majority);
    let opening = candidates.iter().map(async |candidate| {
        stragglers.limit(open(candidate, settings), || candidate.dialer.nobody_answers(None)).await
    });
    let opened = join_all(opening).await;
    if let Some(error) = opened.iter().filter_map(|opened| opened.as_ref().err()).find(is_refusal) {
        return Err(error.clone());
    }
    if opened.iter().flatten().count() < majority {
        return Err(no_majority(candidates, &opened, majority));
    }
    let nodes = candidates.iter().zip(opened).map(|(candidate, opened)| {
        let backend = opened.unwrap_or_else(|_| begin(candidate, settings));
        (candidate.server.clone(), backend)
    });
    Ok(nodes.collect())
}

/// Connects to a server and checks that it can be a quorum node.
async fn open<C: Client>(
    Candidate { server, dialer, place }: &Candidate<C>,
    NodeSettings { rules, worker }: &NodeSettings,
) -> Result<RedisBackend<C>, BackendError> {
    let settings = Settings { rules: *rules, replicas: 0, expected: Expected::QuorumNode };
    let opened = one_server(dialer.clone(), settings).await;
    let (one, warnings) = opened.map_err(|error| named(server, &error))?;
    let backend = RedisBackend::new((Route::One(one), warnings), dialer.home.clone(), worker.clone());
    let node = backend.node()?;
    let _ = node.place.set(place.clone());
    let dialled = node.connection.connected("check a quorum node").await?;
    accepted(node, &dialled).await?;
    Ok(backend)
}

/// Returns a node that is dialled in the background until it responds.
fn begin<C: Client>(
    Candidate { dialer, place, .. }: &Candidate<C>,
    NodeSettings { rules, worker }: &NodeSettings,
) -> RedisBackend<C> {
    let connection = ManagedConnection::begin(dialer.clone(), Purpose::Requests);
    let subscriptions = Subscriptions::begin(dialer.clone(), PubSub::Plain, None);
    let shared = Shared::new(connection, subscriptions, ServerClock::default(), *rules);
    let _ = shared.place.set(place.clone());
    let route = Route::One(OneServer::new(Arc::new(shared), None));
    RedisBackend::new((route, Vec::new()), dialer.home.clone(), worker.clone())
}

fn no_majority<C: Client>(
    candidates: &[Candidate<C>],
    opened: &[Result<RedisBackend<impl Client>, BackendError>],
    majority: usize,
) -> BackendError {
    let errors = opened.iter().filter_map(|opened| opened.as_ref().err());
    let each: Vec<_> = errors.map(BackendError::to_string).collect();
    let votes = candidates.iter().zip(opened).map(|(candidate, opened)| {
        let kind = match opened {
            Ok(_) => VoteKind::Free,
            Err(error) => VoteKind::Failed { error: error.to_string() },
        };
        NodeVote::new(candidate.server.to_string(), kind)
    });
    let message = format!(
        "failed to connect to the quorum: {} of {} nodes responded, but {majority} are required: {}",
        opened.len() - each.len(),
        opened.len(),
        each.join("; ")
    );
    BackendError::new(BackendErrorKind::Unavailable, Applied::No, message).with_votes(votes.collect())
}

/// Warns about a node that is declared durable but may lose acknowledged writes.
async fn warn_of_loss<C: Client>(server: &Server, backend: &RedisBackend<C>) {
    let Some(connection) = backend.node().ok().map(|node| &node.connection) else { return };
    let standing = connection.standing();
    let Some(node) = standing.as_ref().and_then(|dialled| dialled.accepted.get()) else { return };
    if node.appends {
        let setting = match connection.call("read the settings", Command::config("appendfsync")).await {
            Ok(Reply::List(words)) => words.get(1).and_then(Reply::text).map(printable),
            Ok(_) => None,
            Err(error) => Some(BackendError::from(error).to_string()),
        };
        if let Some(setting) = setting.filter(|setting| setting != "always") {
            tracing::warn!(
                node = %server,
                setting,
                "quorum node is declared durable but `appendfsync` is not `always`, or unknown: after a crash, two \
                 processes may hold the same lock; set it, or do not declare the node durable"
            );
        }
    } else {
        tracing::warn!(
            node = %server,
            "quorum node is declared durable but writes no append-only file: after a crash, two processes may hold the \
             same lock; set `appendonly yes` and `appendfsync always`, or do not declare it durable"
        );
    }
}
