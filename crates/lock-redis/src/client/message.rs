//! The commands that this crate sends, and the replies.

use bytes::Bytes;
use std::{borrow::Cow, collections::HashMap, str, time::Duration};

/// A command for [`Connection::call`](super::Connection::call).
///
/// A command owns its arguments, because a client library may keep a request beyond the call.
/// Static strings are not copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    name: &'static str,
    arguments: Vec<Cow<'static, str>>,
}

impl Command {
    pub(crate) fn new(name: &'static str, arguments: Vec<Cow<'static, str>>) -> Self {
        Self { name, arguments }
    }

    pub(crate) fn ping() -> Self {
        Self::new("PING", Vec::new())
    }

    /// Reads the server's clock.
    pub(crate) fn time() -> Self {
        Self::new("TIME", Vec::new())
    }

    pub(crate) fn asking() -> Self {
        Self::new("ASKING", Vec::new())
    }

    pub(crate) fn cluster_slots() -> Self {
        Self::new("CLUSTER", vec!["SLOTS".into()])
    }

    /// Waits until this many replicas have acknowledged all earlier writes, for at most this time.
    pub(crate) fn wait(replicas: u32, within: Duration) -> Self {
        // 0 would mean forever.
        let millis = within.as_millis().max(1);
        Self::new("WAIT", vec![replicas.to_string().into(), millis.to_string().into()])
    }

    pub(crate) fn config(pattern: &'static str) -> Self {
        Self::new("CONFIG", vec!["GET".into(), pattern.into()])
    }

    /// Deletes a field of a hash, and the key with its last field.
    pub(crate) fn hdel(key: String, field: Cow<'static, str>) -> Self {
        Self::new("HDEL", vec![key.into(), field])
    }

    /// Wakes the subscribers of a lock's channel. A waiting Java client counts down by the payload, which must be the
    /// number 0.
    pub(crate) fn wake(kind: PubSub, channel: String) -> Self {
        let name = match kind {
            PubSub::Plain => "PUBLISH",
            PubSub::Sharded => "SPUBLISH",
        };
        Self::new(name, vec![channel.into(), "0".into()])
    }

    /// Stores a text with an expiry.
    pub(crate) fn set(key: String, text: String, ttl: Duration) -> Self {
        let millis = ttl.as_millis().max(1).to_string();
        Self::new("SET", vec![key.into(), text.into(), "PX".into(), millis.into()])
    }

    /// Reads at most this many bytes from the start of a text.
    pub(crate) fn get_start(key: String, bytes: usize) -> Self {
        let last = bytes.saturating_sub(1).to_string();
        Self::new("GETRANGE", vec![key.into(), "0".into(), last.into()])
    }

    pub(crate) fn del(key: String) -> Self {
        Self::new("DEL", vec![key.into()])
    }

    /// Scans about `count` further keys for hashes that match a pattern.
    pub(crate) fn scan_hashes(cursor: String, pattern: String, count: u32) -> Self {
        let words = ["MATCH".into(), pattern.into(), "COUNT".into(), count.to_string().into()];
        let mut arguments: Vec<Cow<'static, str>> = vec![cursor.into()];
        arguments.extend(words);
        arguments.extend(["TYPE".into(), "hash".into()]);
        Self::new("SCAN", arguments)
    }

    pub(crate) fn info() -> Self {
        Self::new("INFO", Vec::new())
    }

    /// Returns the name of the command, a single word such as `EVALSHA`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the arguments.
    #[must_use]
    pub fn arguments(&self) -> &[Cow<'static, str>] {
        &self.arguments
    }

    /// Returns the arguments by value, so they can be sent without being copied.
    #[must_use]
    pub fn into_arguments(self) -> Vec<Cow<'static, str>> {
        self.arguments
    }
}

/// The kind of channel that carries wake-ups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PubSub {
    /// `SUBSCRIBE`.
    Plain,
    /// `SSUBSCRIBE`, in a cluster with Redis 7 or later. Each channel belongs to a slot and
    /// therefore needs a separate command.
    Sharded,
}

/// A reply or a part of one.
///
/// RESP2 has no other types. A client that speaks RESP3 translates the types that have an equivalent here. It returns
/// [`CallError::Unreadable`](super::CallError::Unreadable) for all others, which no script returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The null reply.
    Nil,
    /// A number.
    Integer(i64),
    /// A string, simple or bulk.
    Bytes(Bytes),
    /// An array.
    List(Vec<Reply>),
    /// An error inside an array. An error that is the whole reply is a
    /// [`CallError::Refused`](super::CallError::Refused).
    Error(String),
}

impl Reply {
    /// Returns the text, if this is a UTF-8 string.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Bytes(bytes) => str::from_utf8(bytes).ok(),
            Self::Nil | Self::Integer(_) | Self::List(_) | Self::Error(_) => None,
        }
    }

    /// Returns the number. Scripts send large numbers as text, because Lua's own formatting would lose digits.
    pub(crate) fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            other => other.text()?.parse().ok(),
        }
    }
}

/// The `name:value` lines of the reply to `INFO`.
pub(crate) struct Info<'a>(HashMap<&'a str, &'a str>);

impl<'a> Info<'a> {
    pub(crate) fn read(text: &'a str) -> Self {
        Self(text.lines().filter_map(|line| line.trim_end().split_once(':')).collect())
    }

    /// Returns the value of a line, or an empty string if there is no such line.
    pub(crate) fn get(&self, name: &str) -> &'a str {
        self.0.get(name).copied().unwrap_or_default()
    }
}

/// Escapes the characters that do not print: a server must not control the terminal that shows its errors.
pub(crate) fn printable(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut printed, c| {
        match c {
            '\\' | '"' | '\'' => printed.push(c),
            c => printed.extend(c.escape_debug()),
        }
        printed
    })
}
