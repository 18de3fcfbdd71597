//! A connection: a stream, the redis-rs task that reads and writes it, and the translation of replies.

use crate::error;
use lock_redis::client::{CallError, Command, Connection, DialError, Events, PubSub, Reply};
use redis::{
    AsyncConnectionConfig, Cmd, PushInfo, PushKind, RedisConnectionInfo, RedisError, ServerError, Value,
    aio::MultiplexedConnection,
};
use std::{convert::Infallible, future::Future, str, sync::Arc};
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
        self.together(pipeline).await?.into_iter().map(part).collect()
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

/// Converts a value. An error reply becomes an error.
fn reply(value: Value) -> Result<Reply, CallError> {
    match part(value)? {
        Reply::Error(text) => Err(CallError::Refused(text)),
        reply => Ok(reply),
    }
}

/// Checks the confirmation of a subscription, or of its end.
fn confirmed(value: Value) -> Result<(), CallError> {
    match value {
        Value::Push { .. } => Ok(()),
        other => match reply(other)? {
            Reply::List(_) => Ok(()),
            _ => Err(CallError::Unreadable("the subscription was not confirmed".to_owned())),
        },
    }
}

fn part(value: Value) -> Result<Reply, CallError> {
    Ok(match value {
        Value::Nil => Reply::Nil,
        Value::Int(number) => Reply::Integer(number),
        Value::BulkString(bytes) => Reply::Bytes(bytes.into()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Reply::Bytes(text.into()),
        Value::Okay => Reply::Bytes("OK".into()),
        Value::Array(parts) => Reply::List(parts.into_iter().map(part).collect::<Result<_, _>>()?),
        // As RESP2 encodes maps.
        Value::Map(pairs) => {
            let parts = pairs.into_iter().flat_map(|(key, value)| [key, value]);
            Reply::List(parts.map(part).collect::<Result<_, _>>()?)
        }
        Value::ServerError(error) => Reply::Error(words(&error)),
        _ => return Err(CallError::Unreadable("unexpected reply type".to_owned())),
    })
}

/// Restores the server's message, which redis-rs splits.
fn words(error: &ServerError) -> String {
    match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    }
}

/// Returns the channel of a message.
fn channel(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::{VerbatimFormat, parse_redis_value};

    fn read(wire: &str) -> Result<Reply, CallError> {
        reply(parse_redis_value(wire.as_bytes()).expect("a reply"))
    }

    fn bytes(text: &'static str) -> Reply {
        Reply::Bytes(text.into())
    }

    #[test]
    fn replies_are_the_same_in_both_protocols() {
        assert_eq!(read("$-1\r\n"), Ok(Reply::Nil));
        assert_eq!(read("_\r\n"), Ok(Reply::Nil));
        assert_eq!(read(":-7\r\n"), Ok(Reply::Integer(-7)));
        assert_eq!(read("+OK\r\n"), Ok(bytes("OK")));
        assert_eq!(read("+PONG\r\n"), Ok(bytes("PONG")));
        assert_eq!(read("$2\r\nhi\r\n"), Ok(bytes("hi")));
        assert_eq!(read("=6\r\ntxt:hi\r\n"), Ok(bytes("hi")), "as in replies to INFO");
        let pair = vec![bytes("a"), Reply::Integer(1)];
        assert_eq!(read("%1\r\n+a\r\n:1\r\n"), Ok(Reply::List(pair)), "as a part of CLUSTER SLOTS");
        let list = vec![Reply::Integer(1), Reply::Error("WRONGTYPE no hash".to_owned())];
        assert_eq!(read("*2\r\n:1\r\n-WRONGTYPE no hash\r\n"), Ok(Reply::List(list)));
    }

    #[test]
    fn errors_keep_the_words_of_the_server() {
        for words in ["NOSCRIPT No matching script.", "ERR unknown command 'x'", "BUSY", "TOKENS x: y"] {
            let read = read(&format!("-{words}\r\n"));
            assert!(read == Err(CallError::Refused(words.to_owned())), "{words}: {read:?}");
        }
    }

    #[test]
    fn other_types_are_unreadable() {
        for value in [Value::Boolean(true), Value::Double(0.5)] {
            assert!(matches!(reply(value), Err(CallError::Unreadable(_))));
        }
    }

    #[test]
    fn channel_of_a_message_is_text() {
        assert_eq!(channel(&Value::BulkString(b"c".to_vec())), Some("c"));
        assert_eq!(channel(&Value::BulkString(vec![0xff])), None);
        let verbatim = Value::VerbatimString { format: VerbatimFormat::Text, text: "c".to_owned() };
        assert_eq!(channel(&verbatim), None);
    }
}
