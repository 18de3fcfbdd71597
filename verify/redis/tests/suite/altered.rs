//! A client that runs batches with an altered script, for planted bugs.

use crate::client::Library;
use lock_redis::client::{
    CallError, Client, Command, Connection, Credentials, DialError, Endpoint, Events, PubSub, Reply, Server,
    TlsSupport,
};
use lock_testkit::{RawRedis, RawValue, planted::PlantedBug};
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Mutex, PoisonError},
};

/// The client under test. Only batches are altered.
pub(crate) struct Altered {
    client: Library,
    bug: Option<PlantedBug>,
}

impl Altered {
    /// Creates a client with this bug, or with the unmodified script.
    pub(crate) fn with(bug: Option<PlantedBug>) -> Self {
        Self { client: Library::default(), bug }
    }
}

impl Default for Altered {
    fn default() -> Self {
        Self::with(None)
    }
}

/// A connection of the client, and another one for batches.
pub(crate) struct AlteredConnection {
    connection: <Library as Client>::Connection,
    batches: Mutex<RawRedis>,
    bug: Option<PlantedBug>,
}

impl Client for Altered {
    type Connection = AlteredConnection;

    const TLS: TlsSupport<Self> = TlsSupport::Missing("another client");

    fn is_secured(&self) -> bool {
        false
    }

    async fn dial(
        &self,
        endpoint: &Endpoint,
        credentials: &Credentials,
        events: Events,
    ) -> Result<AlteredConnection, DialError> {
        let connection = self.client.dial(endpoint, credentials, events).await?;
        let Server::Tcp { port, .. } = endpoint.server else { panic!("a port of this machine") };
        let mut batches =
            RawRedis::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).expect("listening");
        if let (Some(user), Some(password)) = (&credentials.username, &credentials.password) {
            assert_eq!(batches.command(&["AUTH", user, password]).text(), "OK");
        }
        Ok(AlteredConnection { connection, batches: Mutex::new(batches), bug: self.bug })
    }
}

impl Connection for AlteredConnection {
    /// Executes a command. The server never learns the batch script, so the script always arrives here as text.
    async fn call(&self, command: Command) -> Result<Reply, CallError> {
        let is_batch = |text: &str| text.contains("operations on many locks");
        if command.name() != "EVAL" || !is_batch(&command.arguments()[0]) {
            return self.connection.call(command).await;
        }
        let mut words = command.into_arguments();
        words[0] = altered(&words[0], self.bug).into();
        words.insert(0, "EVAL".into());
        let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
        let mut batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        match batches.command(&words) {
            RawValue::Error(text) => Err(CallError::Refused(text)),
            value => Ok(reply(value)),
        }
    }

    async fn pipeline(&self, commands: Vec<Command>) -> Result<Vec<Reply>, CallError> {
        self.connection.pipeline(commands).await
    }

    async fn subscribe(&self, kind: PubSub, channels: Vec<String>) -> Result<(), CallError> {
        self.connection.subscribe(kind, channels).await
    }

    async fn unsubscribe(&self, kind: PubSub, channels: Vec<String>) -> Result<(), CallError> {
        self.connection.unsubscribe(kind, channels).await
    }
}

/// Returns the text of the batch script with this bug.
fn altered(text: &str, bug: Option<PlantedBug>) -> String {
    let changes: &[(&str, &str)] = match bug {
        None => &[],
        Some(PlantedBug::BatchErrorFailsNeighbours) => &[
            ("local lines, key,", "local failed\nlocal lines, key,"),
            (
                "  local at = #lines + 1",
                "  if word == 'error' or word == 'refused' then failed = a end\n  \
                 if failed then word, a, b, c = 'error', failed end\n  local at = #lines + 1",
            ),
        ],
        Some(other) => panic!("{other:?} is not planted here"),
    };
    changes.iter().fold(text.to_owned(), |text, (from, to)| {
        assert_eq!(text.matches(from).count(), 1, "the script has changed: {from:?} in\n{text}");
        text.replace(from, to)
    })
}

fn reply(value: RawValue) -> Reply {
    match value {
        RawValue::Nil => Reply::Nil,
        RawValue::Integer(number) => Reply::Integer(number),
        RawValue::Text(text) => Reply::Bytes(text.into()),
        RawValue::List(values) => Reply::List(values.into_iter().map(reply).collect()),
        RawValue::Error(text) => Reply::Error(text),
    }
}
