//! The client of the in-memory server.

use super::{Answer, Arrived, Dial, Open, Server};
use lock_core::{Worker, backend::BackendError};
use lock_redis::{
    Address, RedisBackendBuilder, Tls,
    client::{
        CallError, Client, Command, Connection, Credentials, DialError, DialErrorKind, Endpoint, Events,
        PubSub, Reply, TlsSupport,
    },
};
use std::{
    collections::{BTreeSet, VecDeque},
    future::pending,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
};

/// The client, with access to the server. Clones share the server.
#[derive(Clone, Default)]
pub(crate) struct Scripted {
    server: Arc<Mutex<Server>>,
    secured: bool,
}

impl Scripted {
    pub(crate) fn builder(&self) -> RedisBackendBuilder<Self> {
        self.builder_of("redis://:canary@cache:6379")
    }

    /// In the runtime of the test, whose time may be paused.
    pub(crate) fn builder_of(&self, url: &str) -> RedisBackendBuilder<Self> {
        let builder = RedisBackendBuilder::new(self.clone(), Address::parse(url).unwrap());
        match Handle::try_current() {
            Ok(here) => builder.worker(Worker::on(here)),
            Err(_) => builder,
        }
    }

    pub(crate) fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the server's answers from now on.
    pub(crate) fn answer(&self, answers: impl FnMut(&Arrived) -> Answer + Send + 'static) {
        self.server().answers = Box::new(answers);
    }

    /// Makes the server answer like Redis again, and accept every dial.
    pub(crate) fn recover(&self) {
        self.answer(|_| Answer::Usual);
        self.server().dial = Dial::Accepted;
    }

    /// Ends all connections.
    pub(crate) fn cut(&self) {
        let ended = std::mem::take(&mut self.server().connections);
        for Open { events, .. } in ended.into_values() {
            events.ended("reset by peer, which quotes 'canary'");
        }
    }

    /// Drops all connections in the client without reporting a reason.
    pub(crate) fn vanish(&self) {
        let ended = std::mem::take(&mut self.server().connections);
        drop(ended);
    }

    /// Publishes a message and returns the number of connections that received it.
    pub(crate) fn publish(&self, channel: &str) -> usize {
        self.report(|open| {
            let hears = open.channels.contains(channel);
            if hears {
                open.events.message(channel);
            }
            hears
        })
    }

    /// Drops messages in the client.
    pub(crate) fn lag(&self) {
        self.report(|open| {
            open.events.missed();
            true
        });
    }

    /// Reports an event like a client: without holding a mutex.
    fn report(&self, mut event: impl FnMut(&Open) -> bool) -> usize {
        let connections = std::mem::take(&mut self.server().connections);
        let heard = connections.values().filter(|open| event(open)).count();
        self.server().connections.extend(connections);
        heard
    }
}

impl Client for Scripted {
    type Connection = ScriptedConnection;

    const TLS: TlsSupport<Self> = TlsSupport::BuiltIn(Self::secure);

    fn is_secured(&self) -> bool {
        self.secured
    }

    async fn dial(
        &self,
        endpoint: &Endpoint,
        credentials: &Credentials,
        events: Events,
    ) -> Result<ScriptedConnection, DialError> {
        let address = endpoint.server.to_string();
        let dial = {
            let mut server = self.server();
            server.dials.push(Instant::now());
            server.passwords.push(credentials.password.clone());
            match server.down.contains(&address) {
                true => Dial::Failed(DialErrorKind::NobodyListens, "Connection refused"),
                false => server.dial.clone(),
            }
        };
        match dial {
            Dial::Accepted => {}
            Dial::Failed(kind, message) => return Err(DialError::new(kind, message)),
            Dial::Never => pending().await,
        }
        let mut server = self.server();
        server.last_connection += 1;
        let id = server.last_connection;
        server.connections.insert(id, Open { server: address, events, channels: BTreeSet::new() });
        Ok(ScriptedConnection { client: self.clone(), id, early: Mutex::default() })
    }
}

impl Scripted {
    fn secure(&mut self, _: &Tls) -> Result<(), BackendError> {
        self.secured = true;
        Ok(())
    }
}

pub(crate) struct ScriptedConnection {
    client: Scripted,
    id: usize,
    early: Mutex<VecDeque<Result<Reply, CallError>>>,
}

impl ScriptedConnection {
    async fn ask(
        &self,
        name: &'static str,
        arguments: Vec<String>,
        usual: impl FnOnce(&mut Server, &Arrived) -> Result<Reply, CallError>,
    ) -> Result<Reply, CallError> {
        let (asked, answer) = {
            let mut server = self.client.server();
            let Some(asked) = server.arrive(self.id, name, arguments) else {
                return Err(CallError::NotSent("connection closed".to_owned()));
            };
            let answer = (server.answers)(&asked);
            (asked, answer)
        };
        match answer {
            Answer::Usual => self.in_order(usual(&mut self.client.server(), &asked)),
            Answer::Twice => {
                let reply = usual(&mut self.client.server(), &asked);
                self.early().push_back(reply.clone());
                self.in_order(reply)
            }
            Answer::Late(after) => {
                sleep(after).await;
                self.in_order(usual(&mut self.client.server(), &asked))
            }
            Answer::Reply(reply) => Ok(reply),
            Answer::Error(error) => Err(error),
            Answer::Never => pending().await,
            Answer::Held(until) => {
                let _ = until.recv();
                self.in_order(usual(&mut self.client.server(), &asked))
            }
            Answer::End => {
                let open = self.client.server().connections.remove(&self.id);
                drop(open);
                Err(CallError::Lost("reset by peer, which quotes 'canary'".to_owned()))
            }
        }
    }
}

impl ScriptedConnection {
    /// The replies that arrived before their requests.
    fn early(&self) -> MutexGuard<'_, VecDeque<Result<Reply, CallError>>> {
        self.early.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the oldest reply that no request has got.
    fn in_order(&self, reply: Result<Reply, CallError>) -> Result<Reply, CallError> {
        let mut early = self.early();
        early.push_back(reply);
        early.pop_front().unwrap()
    }
}

impl Connection for ScriptedConnection {
    async fn call(&self, command: Command) -> Result<Reply, CallError> {
        let name = command.name();
        let arguments = command.into_arguments().into_iter().map(Into::into).collect();
        self.ask(name, arguments, Server::usual).await
    }

    async fn pipeline(&self, commands: Vec<Command>) -> Result<Vec<Reply>, CallError> {
        let mut replies = Vec::new();
        for command in commands {
            replies.push(match self.call(command).await {
                Err(CallError::Refused(text)) => Reply::Error(text),
                reply => reply?,
            });
        }
        Ok(replies)
    }

    async fn subscribe(&self, _: PubSub, channels: Vec<String>) -> Result<(), CallError> {
        let subscribe = |server: &mut Server, asked: &Arrived| {
            if let Some(open) = server.connections.get_mut(&asked.connection) {
                open.channels.extend(asked.arguments.iter().cloned());
            }
            Ok(Reply::Nil)
        };
        self.ask("SUBSCRIBE", channels, subscribe).await.map(drop)
    }

    async fn unsubscribe(&self, _: PubSub, channels: Vec<String>) -> Result<(), CallError> {
        let unsubscribe = |server: &mut Server, asked: &Arrived| {
            if let Some(open) = server.connections.get_mut(&asked.connection) {
                open.channels.retain(|channel| !asked.arguments.contains(channel));
            }
            Ok(Reply::Nil)
        };
        self.ask("UNSUBSCRIBE", channels, unsubscribe).await.map(drop)
    }
}

impl Drop for ScriptedConnection {
    fn drop(&mut self) {
        let open = self.client.server().connections.remove(&self.id);
        drop(open);
    }
}

/// A client that was built without TLS.
#[derive(Clone, Default)]
pub(crate) struct WithoutTls(pub(crate) Scripted);

impl Client for WithoutTls {
    type Connection = ScriptedConnection;

    const TLS: TlsSupport<Self> = TlsSupport::Missing("the feature `tls` of lock-scripted");

    fn is_secured(&self) -> bool {
        false
    }

    async fn dial(
        &self,
        endpoint: &Endpoint,
        credentials: &Credentials,
        events: Events,
    ) -> Result<ScriptedConnection, DialError> {
        self.0.dial(endpoint, credentials, events).await
    }
}
