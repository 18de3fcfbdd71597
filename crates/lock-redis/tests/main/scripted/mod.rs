//! An in-memory server and its client. The server answers like a healthy Redis, or as a test requires.

mod client;

pub(crate) use client::{Scripted, WithoutTls};

use lock_redis::client::{CallError, DialErrorKind, Events, Reply};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::mpsc::Receiver,
    time::Duration,
};
use tokio::time::Instant;

/// The time on the server's clock when it starts, in µs.
pub(crate) const BEGIN: u64 = 1_767_225_600_000_000;

/// The `INFO` of an acceptable server.
pub(crate) const INFO: &str = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n\r\n# Memory\r\n\
    maxmemory:0\r\nmaxmemory_policy:noeviction\r\n\r\n# Replication\r\nrole:master\r\n";

/// The reply to one command.
pub(crate) enum Answer {
    /// The reply of Redis.
    Usual,
    /// The same, after this delay.
    Late(Duration),
    Reply(Reply),
    Error(CallError),
    /// The reply of Redis, which arrives twice: each later request on the connection gets the reply to the one before.
    Twice,
    /// No reply while the connection lives.
    Never,
    /// The reply of Redis, before which the client blocks its thread until the sender is dropped.
    Held(Receiver<()>),
    /// The connection ends instead.
    End,
}

/// The reply to a dial.
#[derive(Clone, Default)]
pub(crate) enum Dial {
    #[default]
    Accepted,
    Failed(DialErrorKind, &'static str),
    Never,
}

/// A command that arrived at the server.
#[derive(Debug, Clone)]
pub(crate) struct Arrived {
    pub(crate) connection: usize,
    /// The address that was dialled.
    pub(crate) server: String,
    pub(crate) name: &'static str,
    pub(crate) arguments: Vec<String>,
    /// The script that the command runs, if the server knows it.
    script: Option<&'static str>,
}

impl Arrived {
    pub(crate) fn runs(&self, script: &str) -> bool {
        self.script == Some(script)
    }

    fn keys(&self) -> usize {
        self.arguments[1].parse().unwrap()
    }

    /// Returns the operations of a batch: script, lock, arguments.
    pub(crate) fn batched(&self) -> Vec<(&'static str, String, Vec<String>)> {
        let (mut keys, mut words) = {
            let (keys, words) = self.arguments[2..].split_at(self.keys());
            (keys.iter().cloned(), words[1..].iter().cloned())
        };
        let mut operations = Vec::new();
        while let Some(function) = words.next() {
            let (script, count, words_of) = match function.as_str() {
                "acquire" => ("acquire", 2, 4),
                "reserve" => ("acquire", 2, 6),
                "release" => ("release", 1, 3),
                "renew" => ("renew", 1, 3),
                "reenter" => ("reenter", 1, 4),
                other => panic!("no script has `{other}`"),
            };
            let lock = keys.next().unwrap();
            (1..count).for_each(|_| assert!(keys.next().is_some()));
            operations.push((script, lock, words.by_ref().take(words_of).collect()));
        }
        assert_eq!(keys.next(), None, "each key belongs to an operation");
        operations
    }
}

type Answers = Box<dyn FnMut(&Arrived) -> Answer + Send>;

/// The state of the server.
pub(crate) struct Server {
    begin: Instant,
    pub(crate) dial: Dial,
    /// Addresses at which nobody listens.
    pub(crate) down: BTreeSet<String>,
    /// The passwords of the dials.
    pub(crate) passwords: Vec<Option<String>>,
    pub(crate) answers: Answers,
    /// The time by which its clock is ahead.
    pub(crate) ahead: Duration,
    /// The times of the dials.
    pub(crate) dials: Vec<Instant>,
    pub(crate) arrived: Vec<Arrived>,
    /// The number of replicas that acknowledge.
    pub(crate) acknowledging: i64,
    connections: BTreeMap<usize, Open>,
    last_connection: usize,
    scripts: BTreeMap<String, &'static str>,
    unknown: Option<String>,
    last_token: i64,
}

struct Open {
    server: String,
    events: Events,
    channels: BTreeSet<String>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            begin: Instant::now(),
            dial: Dial::default(),
            down: BTreeSet::new(),
            passwords: Vec::new(),
            answers: Box::new(|_| Answer::Usual),
            ahead: Duration::ZERO,
            dials: Vec::new(),
            arrived: Vec::new(),
            acknowledging: 0,
            connections: BTreeMap::new(),
            last_connection: 0,
            scripts: BTreeMap::new(),
            unknown: None,
            last_token: 0,
        }
    }
}

impl Server {
    pub(crate) fn open(&self) -> usize {
        self.connections.len()
    }

    pub(crate) fn subscribed(&self) -> Vec<String> {
        self.connections.values().flat_map(|open| open.channels.iter().cloned()).collect()
    }

    /// Counts the commands that match.
    pub(crate) fn count(&self, of: impl Fn(&Arrived) -> bool) -> usize {
        self.arrived.iter().filter(|arrived| of(arrived)).count()
    }

    /// Returns the time on its clock, in µs.
    pub(crate) fn now(&self) -> u64 {
        BEGIN + u64::try_from((self.begin.elapsed() + self.ahead).as_micros()).unwrap()
    }

    /// Forgets the scripts, as after a restart or `SCRIPT FLUSH`.
    pub(crate) fn forget_scripts(&mut self) {
        self.scripts.clear();
    }

    fn arrive(&mut self, connection: usize, name: &'static str, arguments: Vec<String>) -> Option<Arrived> {
        let server = self.connections.get(&connection)?.server.clone();
        let script = match name {
            "EVAL" => Some(kind(&arguments[0])),
            "EVALSHA" => self.scripts.get(&arguments[0]).copied(),
            _ => None,
        };
        let arrived = Arrived { connection, server, name, arguments, script };
        self.arrived.push(arrived.clone());
        Some(arrived)
    }

    fn usual(&mut self, asked: &Arrived) -> Result<Reply, CallError> {
        match (asked.name, asked.script) {
            ("PING", _) => Ok(text("PONG")),
            ("TIME", _) => {
                let now = self.now();
                Ok(Reply::List(
                    [now / 1_000_000, now % 1_000_000].map(|part| text(&part.to_string())).to_vec(),
                ))
            }
            ("WAIT", _) => Ok(Reply::Integer(self.acknowledging)),
            ("CONFIG", _) => {
                let settings = ["min-replicas-to-write", "1", "min-replicas-max-lag", "10"];
                Ok(Reply::List(settings.map(text).to_vec()))
            }
            ("INFO", _) => Ok(text(INFO)),
            ("HDEL", _) => Ok(Reply::Integer(1)),
            ("PUBLISH", _) => Ok(Reply::Integer(0)),
            ("EVALSHA", None) => {
                self.unknown = asked.arguments.first().cloned();
                Err(refused("NOSCRIPT No matching script. Please use EVAL."))
            }
            (_, Some(script)) => {
                // The text belongs to the hash that was unknown just before.
                self.scripts.extend(self.unknown.take().map(|hash| (hash, script)));
                Ok(self.run(script, asked))
            }
            (name, None) => panic!("unsupported command `{name}`"),
        }
    }

    /// Returns the reply of a script if nobody else holds the lock.
    fn run(&mut self, script: &str, asked: &Arrived) -> Reply {
        let now = Reply::Integer(i64::try_from(self.now()).unwrap());
        let words: Vec<Reply> = match script {
            "probe" => vec![text("fit")],
            "acquire" => {
                self.last_token += 1;
                let token = Reply::Integer(self.last_token);
                vec![text("granted"), token.clone(), token, Reply::Integer(0)]
            }
            "renew" => vec![text("renewed")],
            "batch" => {
                let replies = asked.batched().into_iter().map(|(script, ..)| self.run(script, asked));
                return in_one_text(replies.collect());
            }
            "reenter" => vec![text("reentered")],
            "release" => vec![text("released"), Reply::Integer(0)],
            "inspect" => vec![text("free")],
            other => panic!("unsupported script `{other}`"),
        };
        Reply::List([now].into_iter().chain(words).collect())
    }
}

/// Builds the reply of a batch from the replies of its operations.
pub(crate) fn in_one_text(replies: Vec<Reply>) -> Reply {
    let mut lines = Vec::new();
    for reply in replies {
        let Reply::List(parts) = reply else { panic!("no script answers {reply:?}") };
        // The time is the first line and occurs once.
        parts.into_iter().skip(usize::from(!lines.is_empty())).for_each(|part| {
            lines.push(match part {
                Reply::Integer(number) => number.to_string(),
                Reply::Bytes(text) => String::from_utf8(text.to_vec()).unwrap(),
                other => panic!("no script answers {other:?}"),
            })
        });
    }
    text(&lines.join("\n"))
}

/// Identifies a script by its first comment.
fn kind(script: &str) -> &'static str {
    let kinds = [
        // Checked first: it contains the texts of the others.
        ("-- Carries out operations on many locks", "batch"),
        ("-- Takes a lock,", "acquire"),
        ("-- A re-entry:", "reenter"),
        ("-- Extends a lease", "renew"),
        ("-- Lowers the depth", "release"),
        ("-- Tries every command", "probe"),
        ("-- Reads the holder of a lock,", "inspect"),
    ];
    kinds.iter().find(|(begins, _)| script.contains(begins)).map(|(_, kind)| *kind).unwrap()
}

pub(crate) fn text(text: &str) -> Reply {
    Reply::Bytes(text.to_owned().into())
}

pub(crate) fn refused(text: &str) -> CallError {
    CallError::Refused(text.to_owned())
}
