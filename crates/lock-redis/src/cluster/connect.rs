//! The way from the addresses that the program supplied to the masters of the cluster, connected and checked.

use super::{routes::Part, slots::View};
use crate::{
    check::{self, Checked, ConnectWarning, Expected, LateNode},
    client::{Client, Command, Connection, DialError, Endpoint, Events, Login, PubSub, Secrets, Server},
    clock::ServerClock,
    connection::{Dialer, Home, ManagedConnection, Purpose, Stragglers, Target},
    error::{self, is_refusal, while_connecting},
    keys::Keys,
    shared::{Channels, Rules},
    wake::Subscriptions,
};
use futures_util::{
    future::join_all,
    stream::{FuturesUnordered, StreamExt},
};
use lock_core::backend::BackendError;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{Notify, SetOnce},
    time::timeout,
};

/// The settings that all nodes share.
pub(crate) struct Settings<C> {
    pub(crate) client: Arc<C>,
    pub(crate) home: Arc<Home>,
    pub(crate) seeds: Vec<Server>,
    pub(crate) login: Login,
    /// The time limit of each dial.
    pub(crate) limit: Duration,
    pub(crate) rules: Rules,
}

/// The masters of a cluster at the start.
pub(super) struct Masters<C: Client> {
    pub(super) view: View,
    pub(super) pubsub: PubSub,
    pub(super) parts: Vec<(Server, Part<C>)>,
    pub(super) warnings: Vec<ConnectWarning>,
}

impl<C: Client> Settings<C> {
    /// Finds the nodes, connects to all masters at once and checks each of them. One answer is enough: the masters that
    /// are out of reach are dialled until they answer, and are checked then.
    pub(super) async fn masters(&self, look: &Arc<Notify>) -> Result<Masters<C>, BackendError> {
        let view = self.slots().await?;
        let stragglers = Stragglers::after(1);
        let opening = view.servers().map(async |server| {
            let dialer = Arc::new(self.dialer(server, look, None));
            let opening = Opened::open(dialer.clone());
            (server, stragglers.limit(opening, || dialer.nobody_answers(None)).await)
        });
        let opened = join_all(opening.map(Box::pin)).await;
        let errors = || opened.iter().filter_map(|(_, opened)| opened.as_ref().err());
        let mut answered = opened.iter().filter_map(|(_, opened)| opened.as_ref().ok());
        let is_sharded = self.rules.channels == Channels::Sharded && answered.all(Opened::is_sharded);
        if errors().count() == opened.len() || errors().any(|error| is_refusal(&error)) {
            return Err(error::no_cluster(errors().cloned().collect()));
        }
        let pubsub = if is_sharded { PubSub::Sharded } else { PubSub::Plain };

        let checking = opened.into_iter().map(async |(server, opened)| {
            let checked = async { opened?.checked(pubsub, look, view.reserved_name(server)).await };
            (server, checked.await)
        });
        let (mut warnings, mut parts) = (Vec::new(), Vec::new());
        for (server, checked) in join_all(checking.map(Box::pin)).await {
            let (part, new) = match checked {
                Ok(checked) => checked,
                Err(error) if is_refusal(&&error) => return Err(error),
                Err(error) => {
                    let (server, keys) = (server.clone(), view.reserved_name(server));
                    let reason = error.to_string();
                    let warning = ConnectWarning::NotConnected { server: server.to_string(), reason };
                    tracing::warn!("{warning}");
                    (self.begin(&server, pubsub, look, Some(keys)), vec![warning])
                }
            };
            parts.push((server.clone(), part));
            new.into_iter().for_each(|warning| {
                if !warnings.contains(&warning) {
                    warnings.push(warning);
                }
            });
        }
        Ok(Masters { view, pubsub, parts, warnings })
    }

    /// Queries the addresses supplied by the program. A single reply with the slots is enough.
    pub(super) async fn slots(&self) -> Result<View, BackendError> {
        let mut answers: FuturesUnordered<_> = self.seeds.iter().map(|seed| self.ask(seed)).collect();
        let mut errors = Vec::new();
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(view) => return Ok(view),
                Err(error) => errors.push(error),
            }
        }
        Err(error::no_cluster(errors))
    }

    async fn ask(&self, seed: &Server) -> Result<View, BackendError> {
        let failed = |error: &DialError| error::connecting(seed, self.client.is_secured(), error);
        let question = async {
            let credentials = self.login.get(seed).await?;
            let secrets = Secrets::of(&credentials);
            let events = Events::new(Arc::new(SetOnce::new()), None);
            let endpoint = Endpoint { server: seed.clone(), database: None };
            // Boxed, since the future may be large.
            let dial = Box::pin(self.client.dial(&endpoint, &credentials, events));
            let connection = dial.await.map_err(|error| failed(&secrets.hide_in_dial(error)))?;
            let reply = connection.call(Command::cluster_slots()).await;
            let reply = reply.map_err(|error| error::asking_for_slots(seed, &secrets.hide_in_call(error)))?;
            match View::read(&reply, seed) {
                Some(view) if !view.is_empty() => Ok(view),
                Some(_) => Err(error::without_slots(seed)),
                None => Err(error::unexpected_reply("read the cluster slots").into()),
            }
        };
        let silent = || failed(&DialError::silent(self.limit));
        timeout(self.limit, question).await.map_err(|_| silent())?
    }

    /// Starts connecting to a node, which is checked when it answers.
    pub(super) fn begin(
        &self,
        server: &Server,
        pubsub: PubSub,
        look: &Arc<Notify>,
        keys: Option<Keys>,
    ) -> Part<C> {
        let dialer = Arc::new(self.dialer(server, look, Some(LateNode::new(pubsub, keys))));
        let connection = ManagedConnection::begin(dialer.clone(), Purpose::Requests);
        let subscriptions = Subscriptions::begin(dialer, pubsub, Some(look.clone()));
        (connection, subscriptions, ServerClock::default())
    }

    fn dialer(&self, server: &Server, lost: &Arc<Notify>, admission: Option<LateNode>) -> Dialer<C> {
        let endpoint = crate::client::Endpoint { server: server.clone(), database: None };
        Dialer {
            client: self.client.clone(),
            home: self.home.clone(),
            target: Target::Fixed(endpoint),
            login: self.login.clone(),
            limit: self.limit,
            lost: Some(lost.clone()),
            admission: admission.map(|node| Box::new(node) as _),
        }
    }
}

/// A master that has answered, before its permissions are checked.
struct Opened<C: Client> {
    dialer: Arc<Dialer<C>>,
    connection: ManagedConnection<C>,
    checked: Checked,
}

impl<C: Client> Opened<C> {
    async fn open(dialer: Arc<Dialer<C>>) -> Result<Self, BackendError> {
        let connection = ManagedConnection::open(dialer.clone(), Purpose::Requests).await?;
        let check = async {
            let dialled = connection.connected("connect").await?;
            check::server(&dialled, Expected::ClusterNode).await
        };
        let checked = limited(&dialer, &connection, check).await?;
        Ok(Self { dialer, connection, checked })
    }

    fn is_sharded(&self) -> bool {
        self.checked.is_sharded
    }

    /// Opens the other connection, and tries every command that locks need with these keys.
    async fn checked(
        self,
        pubsub: PubSub,
        look: &Arc<Notify>,
        keys: Keys,
    ) -> Result<(Part<C>, Vec<ConnectWarning>), BackendError> {
        let Self { dialer, connection, checked } = self;
        let subscriptions = Subscriptions::open(dialer.clone(), pubsub, Some(look.clone())).await?;
        let clock = ServerClock::default();
        let check = async {
            match check::rights(&connection, &subscriptions, &clock, keys).await {
                // The slot is moving.
                Err(error) if error.redirection().is_some() => Ok(()),
                checked => checked.map_err(while_connecting),
            }
        };
        limited(&dialer, &connection, check).await?;
        Ok(((connection, subscriptions, clock), checked.warnings))
    }
}

/// Runs a check of a node within the time limit for a dial.
async fn limited<C: Client, T>(
    dialer: &Dialer<C>,
    connection: &ManagedConnection<C>,
    check: impl Future<Output = Result<T, BackendError>>,
) -> Result<T, BackendError> {
    let checked = tokio::time::timeout(dialer.limit, Box::pin(check)).await;
    checked.unwrap_or_else(|_| Err(dialer.nobody_answers(connection.server().as_ref())))
}
