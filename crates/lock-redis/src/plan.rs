//! One attempt to connect: to one server, to the master that sentinels name, or to a cluster.

use crate::{
    check::{self, ConnectWarning, Expected},
    client::{Client, Login, PubSub},
    clock::ServerClock,
    cluster::{self, ClusterHandle},
    connection::{Dialer, ManagedConnection, Purpose, Target},
    error::misconfigured,
    route::{OneServer, Route},
    rules::Rules,
    sentinel::{Follower, Sentinels},
    shared::Shared,
    topology::Topology,
    wake::Subscriptions,
};
use lock_core::backend::BackendError;
use std::{sync::Arc, time::Duration};

/// The settings of each attempt to connect.
pub(crate) struct Plan<C> {
    pub(crate) client: Arc<C>,
    pub(crate) topology: Topology,
    pub(crate) login: Login,
    /// The time limit of each dial.
    pub(crate) limit: Duration,
    pub(crate) rules: Rules,
    pub(crate) replicas: u32,
}

impl<C: Client> Plan<C> {
    /// Connects once.
    pub(crate) async fn open(&self) -> Result<(Route<C>, Vec<ConnectWarning>), BackendError> {
        let (client, limit, rules) = (self.client.clone(), self.limit, self.rules);
        let target = match &self.topology {
            Topology::Standalone(endpoint) => Target::Fixed(endpoint.clone()),
            Topology::Sentinel(address) => {
                Target::Master(Arc::new(Sentinels::new(client.clone(), address.clone(), limit)))
            }
            Topology::Cluster(seeds) => {
                let (seeds, login) = (seeds.clone(), self.login.clone());
                let settings = cluster::Settings { client, seeds, login, limit, rules };
                let (cluster, warnings) = Box::pin(ClusterHandle::connect(settings)).await?;
                return Ok((Route::Cluster(cluster), warnings));
            }
            Topology::Quorum(_) => return Err(misconfigured("a quorum has several servers")),
        };
        let dialer = Dialer { client, target, login: self.login.clone(), limit, lost: None, admission: None };
        let settings = Settings { rules, replicas: self.replicas, expected: Expected::Master };
        let (server, warnings) = one_server(Arc::new(dialer), settings).await?;
        Ok((Route::One(server), warnings))
    }
}

/// The settings of a connection to one server.
pub(crate) struct Settings {
    pub(crate) rules: Rules,
    pub(crate) replicas: u32,
    pub(crate) expected: Expected,
}

/// Connects to one server, or to the master that the sentinels name, and checks it.
pub(crate) async fn one_server<C: Client>(
    dialer: Arc<Dialer<C>>,
    Settings { rules, replicas, expected }: Settings,
) -> Result<(OneServer<C>, Vec<ConnectWarning>), BackendError> {
    let (connection, subscriptions) = tokio::try_join!(
        ManagedConnection::open(dialer.clone(), Purpose::Requests),
        Subscriptions::open(dialer.clone(), PubSub::Plain, None),
    )?;
    let clock = ServerClock::default();
    let checks = async {
        let dialled = connection.connected("connect").await?;
        let checked = check::server(&dialled, expected).await?;
        let rights = check::rights(&connection, &subscriptions, &clock, check::scratch());
        rights.await.map_err(check::not_in_cluster)?;
        let mut warnings = checked.warnings;
        if replicas > 0 {
            warnings.extend(check::replicas(&connection, replicas).await?);
        }
        Ok::<_, BackendError>(warnings)
    };
    let checked = tokio::time::timeout(dialer.limit, Box::pin(checks)).await;
    let server = connection.server();
    let warnings = checked.map_err(|_| dialer.nobody_answers(server.as_ref()))??;
    let shared = Shared::new(connection, subscriptions, clock, rules);
    let shared = Arc::new(match replicas {
        0 => shared,
        replicas => {
            let direct = ManagedConnection::open(dialer.clone(), Purpose::Requests).await?;
            shared.acknowledged_by(replicas, direct)
        }
    });
    let follower = match &dialer.target {
        Target::Master(sentinels) => Some(Follower::start(sentinels.clone(), shared.clone())),
        Target::Fixed(_) | Target::AnySentinel(_) => None,
    };
    Ok((OneServer::new(shared, follower), warnings))
}
