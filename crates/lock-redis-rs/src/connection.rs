//! A connection: a stream, and the redis-rs task that reads and writes it.

use crate::{
    error,
    reply::{channel, confirmed, piped, reply},
};
use lock_redis::client::{CallError, Command, Connection, DialError, Events, PubSub, Reply};
use redis::{
    AsyncConnectionConfig, Cmd, PushInfo, PushKind, RedisConnectionInfo, RedisError, Value,
    aio::MultiplexedConnection,
};
use std::{convert::Infallible, future::Future, sync::Arc};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::{JoinHandle, coop::unconstrained},
};

/// The maximum number of pending requests. Further requests wait before they are sent. A factory
/// has at most one per lock.
const REQUESTS: usize = 200_000;

/// A redis-rs connection. It closes when dropped.
pub struct RedisRsConnection {
    connection: MultiplexedConnection,
    carrier: JoinHandle<()>,
}

impl RedisRsConnection {
    /// Logs in over an open stream.
    pub(crate) async fn open<S>(
        stream: S,
        login: &RedisConnectionInfo,
        events: Events,
    ) -> Result<Self, DialError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let events = Arc::new(events);
        let config = AsyncConnectionConfig::new()
            // Each dial and each request already has a time limit.
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(REQUESTS)
            .set_push_sender(report(events.clone()));
        let opened = MultiplexedConnection::new_with_config(login, stream, config).await;
        let (connection, driver) = opened.map_err(|error| error::of_dial(&error))?;
        Ok(Self { connection, carrier: tokio::spawn(carry(driver, events)) })
    }

    /// Returns the outcome of a request, which is sent at the first poll even if the task has used up its tokio budget.
    async fn request<T>(&self, request: impl Future<Output = Result<T, RedisError>>) -> Result<T, CallError> {
        if self.carrier.is_finished() {
            return Err(CallError::NotSent("the connection has ended".to_owned()));
        }
        unconstrained(request).await.map_err(|error| error::of_call(&error))
    }

    async fn together(&self, pipeline: redis::Pipeline) -> Result<Vec<Value>, CallError> {
        let (mut connection, commands) = (self.connection.clone(), pipeline.len());
        self.request(connection.send_packed_commands(&pipeline, 0, commands)).await
    }

    /// Sends one command per channel, each with its own confirmation.
    async fn for_each(&self, command: &str, channels: Vec<String>) -> Result<(), CallError> {
        let mut pipeline = redis::Pipeline::with_capacity(channels.len());
        for channel in channels {
            pipeline.cmd(command).arg(channel);
        }
        self.together(pipeline).await?.into_iter().try_for_each(confirmed)
    }
}

impl Connection for RedisRsConnection {
    async fn call(&self, command: Command) -> Result<Reply, CallError> {
        let command = packed(&command);
        let mut connection = self.connection.clone();
        reply(self.request(connection.send_packed_command(&command)).await?)
    }

    async fn pipeline(&self, commands: Vec<Command>) -> Result<Vec<Reply>, CallError> {
        let mut pipeline = redis::Pipeline::with_capacity(commands.len());
        for command in &commands {
            pipeline.add_command(packed(command));
        }
        self.together(pipeline).await?.into_iter().map(piped).collect()
    }

    async fn subscribe(&self, kind: PubSub, channels: Vec<String>) -> Result<(), CallError> {
        let mut connection = self.connection.clone();
        match kind {
            PubSub::Plain => self.request(connection.subscribe(channels)).await,
            PubSub::Sharded => self.for_each("SSUBSCRIBE", channels).await,
        }
    }

    async fn unsubscribe(&self, kind: PubSub, channels: Vec<String>) -> Result<(), CallError> {
        let mut connection = self.connection.clone();
        match kind {
            PubSub::Plain => self.request(connection.unsubscribe(channels)).await,
            PubSub::Sharded => self.for_each("SUNSUBSCRIBE", channels).await,
        }
    }
}

impl Drop for RedisRsConnection {
    fn drop(&mut self) {
        self.carrier.abort();
    }
}

fn packed(command: &Command) -> Cmd {
    let (name, arguments) = (command.name(), command.arguments());
    let size = arguments.iter().map(|argument| argument.len()).sum::<usize>();
    let mut packed = Cmd::with_capacity(1 + arguments.len(), name.len() + size);
    packed.arg(name);
    for argument in arguments {
        packed.arg(argument.as_bytes());
    }
    packed
}

/// Reports messages from within the reading task, so no queue delays or drops them.
fn report(events: Arc<Events>) -> impl Fn(PushInfo) -> Result<(), Infallible> + Send + Sync + 'static {
    move |push| {
        if matches!(push.kind, PushKind::Message | PushKind::SMessage)
            && let Some(channel) = push.data.first().and_then(channel)
        {
            events.message(channel);
        }
        Ok(())
    }
}

/// Reads and writes until the connection ends, and then reports its end.
async fn carry(driver: impl Future<Output = ()>, events: Arc<Events>) {
    driver.await;
    // The driver has ended and dropped its reference to the events.
    if let Some(events) = Arc::into_inner(events) {
        events.ended("the connection broke or was closed by the peer");
    }
}
