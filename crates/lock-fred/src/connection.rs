//! A fred connection and its task, and the translation of replies.

use crate::error;
use fred::{
    clients::Client,
    error::Error,
    interfaces::{ClientLike, EventInterface, PubsubInterface},
    types::{ClusterHash, ConnectHandle, CustomCommand, Message, Resp3Frame as Frame, Value},
};
use futures_util::future::try_join_all;
use lock_redis::client::{CallError, Command, Connection, Events, PubSub, Reply};
use std::{
    borrow::Cow,
    future::poll_fn,
    pin::pin,
    sync::atomic::{AtomicU64, Ordering},
    task::Poll,
};
use tokio::{
    sync::broadcast::{Receiver, error::RecvError},
    task::JoinHandle,
};

/// A fred connection. It closes when dropped.
pub struct FredConnection {
    client: Client,
    carrier: JoinHandle<()>,
}

impl FredConnection {
    /// Connects a configured client.
    pub(crate) async fn open(client: Client, events: Events) -> Result<Self, Error> {
        // Subscribed before the connect, so that no message is missed.
        let messages = client.message_rx();
        let task = connect(&client).await?;
        Ok(Self { client, carrier: tokio::spawn(supervise(task, messages, events)) })
    }

    /// Changes subscriptions and waits for the acknowledgement. fred does not match replies to
    /// `SUBSCRIBE`: it attributes a refusal to the next command. A `PING` is therefore pipelined
    /// behind it, and returns either that refusal or its own argument.
    async fn acknowledged(&self, change: Change) -> Result<(), CallError> {
        static NONCE: AtomicU64 = AtomicU64::new(0);
        let nonce = format!("barrier {}", NONCE.fetch_add(1, Ordering::Relaxed));
        let pipeline = self.client.pipeline();
        let request = async {
            match change {
                Change::Subscribe(channels) => pipeline.subscribe(channels).await?,
                Change::Unsubscribe(channels) => pipeline.unsubscribe(channels).await?,
                Change::UnsubscribeSharded(channels) => {
                    for channel in channels {
                        pipeline.sunsubscribe(channel).await?;
                    }
                }
            }
            pipeline.ping::<()>(Some(nonce.clone())).await?;
            pipeline.last::<Value>().await
        };
        let answer = request.await.map_err(|error| error::of_call(&error))?;
        match echo(answer) {
            Some(echo) if echo == nonce => Ok(()),
            _ => Err(CallError::Lost("replies do not match their requests".to_owned())),
        }
    }
}

/// A change of subscriptions.
enum Change {
    Subscribe(Vec<String>),
    Unsubscribe(Vec<String>),
    UnsubscribeSharded(Vec<String>),
}

impl Connection for FredConnection {
    async fn call(&self, command: Command) -> Result<Reply, CallError> {
        let name = CustomCommand::new_static(command.name(), ClusterHash::FirstKey, false);
        let arguments: Vec<Argument> = command.into_arguments().into_iter().map(Argument).collect();
        let frame = self.client.custom_raw(name, arguments).await;
        reply(frame.map_err(|error| error::of_call(&error))?)
    }

    async fn pipeline(&self, commands: Vec<Command>) -> Result<Vec<Reply>, CallError> {
        let pipeline = self.client.pipeline();
        for command in commands {
            let name = CustomCommand::new_static(command.name(), ClusterHash::FirstKey, false);
            let arguments: Vec<Argument> = command.into_arguments().into_iter().map(Argument).collect();
            // This only queues the command; nothing is sent yet.
            pipeline.custom::<(), _>(name, arguments).await.map_err(|error| error::of_call(&error))?;
        }
        pipeline.try_all::<Value>().await.into_iter().map(piped).collect()
    }

    async fn subscribe(&self, kind: PubSub, channels: Vec<String>) -> Result<(), CallError> {
        match kind {
            PubSub::Plain => self.acknowledged(Change::Subscribe(channels)).await,
            // `SSUBSCRIBE` is the only one of these commands whose reply fred awaits.
            PubSub::Sharded => {
                let each = channels.into_iter().map(|channel| self.client.ssubscribe(channel));
                let all = try_join_all(each).await;
                all.map(drop).map_err(|error| error::of_call(&error))
            }
        }
    }

    async fn unsubscribe(&self, kind: PubSub, channels: Vec<String>) -> Result<(), CallError> {
        match kind {
            PubSub::Plain => self.acknowledged(Change::Unsubscribe(channels)).await,
            PubSub::Sharded => self.acknowledged(Change::UnsubscribeSharded(channels)).await,
        }
    }
}

impl Drop for FredConnection {
    fn drop(&mut self) {
        self.carrier.abort();
    }
}

/// A command argument that is sent without a copy.
struct Argument(Cow<'static, str>);

impl TryFrom<Argument> for Value {
    type Error = Error;

    fn try_from(Argument(text): Argument) -> Result<Self, Error> {
        Ok(match text {
            Cow::Borrowed(text) => Self::from_static_str(text),
            Cow::Owned(text) => Self::from(text),
        })
    }
}

/// Opens the connection. Dropping the future or its result closes it; fred's own `init` would leave a task behind.
async fn connect(client: &Client) -> Result<ConnectionTask, Error> {
    let mut made = pin!(client.wait_for_connect());
    // The future listens from its first poll on. The event may arrive before the second poll.
    let early = poll_fn(|context| Poll::Ready(made.as_mut().poll(context))).await;
    let task = ConnectionTask(client.connect());
    match early {
        Poll::Ready(made) => made?,
        Poll::Pending => made.await?,
    }
    Ok(task)
}

/// The fred task that carries a connection. Dropping it aborts the task.
struct ConnectionTask(ConnectHandle);

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Reports the messages and the end of the connection. Without a reconnection policy, fred ends its task with the
/// connection, or on an error that it considers fatal.
async fn supervise(mut task: ConnectionTask, mut messages: Receiver<Message>, events: Events) {
    let reason = loop {
        tokio::select! {
            message = messages.recv() => match message {
                Ok(message) => events.message(&message.channel),
                Err(RecvError::Lagged(_)) => events.missed(),
                Err(RecvError::Closed) => break "the client was closed".to_owned(),
            },
            ended = &mut task.0 => break match ended {
                Ok(Ok(())) => "the client was closed".to_owned(),
                Ok(Err(error)) => error.details().to_owned(),
                Err(error) => error.to_string(),
            },
        }
    };
    events.ended(reason);
}

/// Converts a frame. An error reply becomes an error.
fn reply(frame: Frame) -> Result<Reply, CallError> {
    match part(frame)? {
        Reply::Error(text) => Err(CallError::Refused(text)),
        reply => Ok(reply),
    }
}

fn part(frame: Frame) -> Result<Reply, CallError> {
    Ok(match frame {
        Frame::Null => Reply::Nil,
        Frame::Number { data, .. } => Reply::Integer(data),
        Frame::BlobString { data, .. }
        | Frame::SimpleString { data, .. }
        | Frame::VerbatimString { data, .. }
        | Frame::BigNumber { data, .. } => Reply::Bytes(data),
        Frame::SimpleError { data, .. } => Reply::Error(data.to_string()),
        Frame::BlobError { data, .. } => Reply::Error(String::from_utf8_lossy(&data).into_owned()),
        Frame::Array { data, .. } | Frame::Push { data, .. } => {
            Reply::List(data.into_iter().map(part).collect::<Result<_, _>>()?)
        }
        Frame::Boolean { .. }
        | Frame::Double { .. }
        | Frame::Map { .. }
        | Frame::Set { .. }
        | Frame::Hello { .. }
        | Frame::ChunkedString(_) => {
            return Err(CallError::Unreadable("unexpected reply type".to_owned()));
        }
    })
}

/// Converts the reply to one command of a pipeline, for which fred returns values and errors instead of frames.
fn piped(answer: Result<Value, Error>) -> Result<Reply, CallError> {
    match answer {
        Ok(value) => of_value(value),
        Err(error) if error::is_from_server(error.details()) => Ok(Reply::Error(error.details().to_owned())),
        Err(error) => Err(error::of_call(&error)),
    }
}

fn of_value(value: Value) -> Result<Reply, CallError> {
    Ok(match value {
        Value::Null => Reply::Nil,
        Value::Integer(number) => Reply::Integer(number),
        Value::String(text) => Reply::Bytes(text.into_inner()),
        Value::Bytes(bytes) => Reply::Bytes(bytes),
        Value::Array(parts) => Reply::List(parts.into_iter().map(of_value).collect::<Result<_, _>>()?),
        _ => {
            return Err(CallError::Unreadable("unexpected reply type".to_owned()));
        }
    })
}

/// Returns the argument that a `PING` echoes. A connection with subscriptions replies with
/// `["pong", …]`.
fn echo(answer: Value) -> Option<String> {
    match answer {
        Value::Array(mut words) => words.pop()?.into_string(),
        word => word.into_string(),
    }
}
