//! The floors, minimal locks written directly on a client: `SET NX PX`, and the fenced floor. Neither waits for a held lock.
//!
//! The fenced floor has the commands of our locks without anything around them, through both clients: an acquire is one script,
//! which takes the lock, grants a token and remembers it, and a release is `HDEL` and `PUBLISH` in one pipeline.

use super::{Lock, Locks};
use crate::Result;
use fred::{
    clients::Client,
    interfaces::ClientLike,
    types::{Builder, ClusterHash, CustomCommand, FromValue, config::Config},
};
use redis::aio::MultiplexedConnection;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use uuid::Uuid;

/// The lease of a floor in milliseconds, equal to that of our default options.
pub(crate) const LEASE_MS: &str = "30000";

/// Opens a connection.
pub(crate) async fn open(url: &str) -> Result<Client> {
    let mut builder = Builder::from_config(Config::from_url(url)?);
    builder.with_connection_config(|connection| connection.tcp.nodelay = Some(true));
    let client = builder.build()?;
    client.init().await?;
    Ok(client)
}

/// The digest of a script that the server has loaded.
#[derive(Debug, Clone)]
pub(crate) struct Script(String);

impl Script {
    pub(crate) async fn load(client: &Client, source: &str) -> Result<Self> {
        let load = CustomCommand::new_static("SCRIPT", ClusterHash::FirstKey, false);
        Ok(Self(client.custom(load, vec!["LOAD", source]).await?))
    }

    /// Runs the script.
    pub(crate) async fn run<R: FromValue>(
        &self,
        client: &Client,
        keys: &[&str],
        arguments: &[&str],
    ) -> Result<R> {
        let evalsha = CustomCommand::new_static("EVALSHA", ClusterHash::FirstKey, false);
        let count = keys.len().to_string();
        let mut words = vec![self.0.as_str(), &count];
        words.extend(keys.iter().chain(arguments));
        Ok(client.custom(evalsha, words).await?)
    }
}

/// Creates the owner ids of a process, one per acquire.
#[derive(Debug)]
pub(crate) struct Owners {
    process: Uuid,
    next: AtomicU64,
}

impl Owners {
    pub(crate) fn new() -> Self {
        Self { process: Uuid::new_v4(), next: AtomicU64::new(0) }
    }

    pub(crate) fn next(&self) -> String {
        format!("{}:{}", self.process, self.next.fetch_add(1, Ordering::Relaxed))
    }
}

pub(crate) struct SetNx(Arc<Connection>);

struct Connection {
    client: Client,
    release: Script,
    owners: Owners,
}

#[derive(Clone)]
pub(crate) struct SetNxLock {
    connection: Arc<Connection>,
    name: Arc<str>,
}

impl Locks for SetNx {
    type Lock = SetNxLock;

    async fn connect(url: &str) -> Result<Self> {
        let client = open(url).await?;
        let release = Script::load(&client, include_str!("set_nx_release.lua")).await?;
        Ok(Self(Arc::new(Connection { client, release, owners: Owners::new() })))
    }

    fn lock(&self, name: &str) -> Result<SetNxLock> {
        Ok(SetNxLock { connection: self.0.clone(), name: name.into() })
    }
}

impl Lock for SetNxLock {
    type Held = String;

    async fn acquire(&self) -> Result<String> {
        let set = CustomCommand::new_static("SET", ClusterHash::FirstKey, false);
        let owner = self.connection.owners.next();
        let words = vec![&*self.name, &owner, "NX", "PX", LEASE_MS];
        match self.connection.client.custom::<Option<String>, _>(set, words).await? {
            Some(_) => Ok(owner),
            None => Err(format!("{} is held, and this floor does not wait", self.name).into()),
        }
    }

    async fn release(&self, owner: String) -> Result<()> {
        match self.connection.release.run(&self.connection.client, &[&self.name], &[&owner]).await? {
            1_u64 => Ok(()),
            _ => Err(format!("{} was lost before its release", self.name).into()),
        }
    }
}

const ACQUIRE: &str = include_str!("fenced_acquire.lua");

/// The retention of the counter in milliseconds, equal to that of our default options.
const RETENTION_MS: &str = "86400000";

/// A held lock: the owner, and the token.
type Held = (String, u64);

/// The floor on fred.
pub(crate) struct Fenced(Arc<OnFred>);

pub(crate) struct OnFred {
    client: Client,
    acquire: Script,
    owners: Owners,
}

/// The floor on redis-rs.
pub(crate) struct FencedRedisRs(Arc<OnRedisRs>);

pub(crate) struct OnRedisRs {
    connection: MultiplexedConnection,
    acquire: String,
    owners: Owners,
}

/// The names of a lock in the store.
#[derive(Debug)]
struct Keys {
    lock: String,
    counter: String,
    channel: String,
}

impl Keys {
    fn of(name: &str) -> Arc<Self> {
        let [lock, counter, channel] =
            ["lock", "counter", "released"].map(|part| format!("fenced:{part}:{{{name}}}"));
        Arc::new(Self { lock, counter, channel })
    }

    fn held(&self, owner: String, token: Option<u64>) -> Result<Held> {
        let token = token.ok_or_else(|| format!("{} is held, and this floor does not wait", self.lock))?;
        Ok((owner, token))
    }

    fn released(&self, removed: u64) -> Result<()> {
        match removed {
            1 => Ok(()),
            _ => Err(format!("{} was lost before its release", self.lock).into()),
        }
    }
}

pub(crate) struct FencedLock<C> {
    connection: Arc<C>,
    keys: Arc<Keys>,
}

impl<C> Clone for FencedLock<C> {
    fn clone(&self) -> Self {
        Self { connection: self.connection.clone(), keys: self.keys.clone() }
    }
}

impl Locks for Fenced {
    type Lock = FencedLock<OnFred>;

    async fn connect(url: &str) -> Result<Self> {
        let client = open(url).await?;
        let acquire = Script::load(&client, ACQUIRE).await?;
        Ok(Self(Arc::new(OnFred { client, acquire, owners: Owners::new() })))
    }

    fn lock(&self, name: &str) -> Result<Self::Lock> {
        Ok(FencedLock { connection: self.0.clone(), keys: Keys::of(name) })
    }
}

impl Lock for FencedLock<OnFred> {
    type Held = Held;

    async fn acquire(&self) -> Result<Held> {
        let OnFred { client, acquire, owners } = &*self.connection;
        let owner = owners.next();
        let keys = [self.keys.lock.as_str(), &self.keys.counter];
        let token = acquire.run(client, &keys, &[&owner, LEASE_MS, RETENTION_MS]).await?;
        self.keys.held(owner, token)
    }

    async fn release(&self, (owner, _): Held) -> Result<()> {
        let pipeline = self.connection.client.pipeline();
        let command = |name| CustomCommand::new_static(name, ClusterHash::FirstKey, false);
        let _queued: () = pipeline.custom(command("HDEL"), vec![self.keys.lock.as_str(), &owner]).await?;
        let _queued: () = pipeline.custom(command("PUBLISH"), vec![self.keys.channel.as_str(), "0"]).await?;
        let [removed, _]: [u64; 2] = pair(pipeline.all().await?)?;
        self.keys.released(removed)
    }

    fn token((_, token): &Held) -> Option<u64> {
        Some(*token)
    }
}

impl Locks for FencedRedisRs {
    type Lock = FencedLock<OnRedisRs>;

    async fn connect(url: &str) -> Result<Self> {
        let mut connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
        let acquire = redis::cmd("SCRIPT").arg("LOAD").arg(ACQUIRE).query_async(&mut connection).await?;
        Ok(Self(Arc::new(OnRedisRs { connection, acquire, owners: Owners::new() })))
    }

    fn lock(&self, name: &str) -> Result<Self::Lock> {
        Ok(FencedLock { connection: self.0.clone(), keys: Keys::of(name) })
    }
}

impl Lock for FencedLock<OnRedisRs> {
    type Held = Held;

    async fn acquire(&self) -> Result<Held> {
        let OnRedisRs { connection, acquire, owners } = &*self.connection;
        let owner = owners.next();
        let mut evalsha = redis::cmd("EVALSHA");
        evalsha.arg(acquire).arg(2).arg(&self.keys.lock).arg(&self.keys.counter);
        evalsha.arg(&owner).arg(LEASE_MS).arg(RETENTION_MS);
        let token = evalsha.query_async(&mut connection.clone()).await?;
        self.keys.held(owner, token)
    }

    async fn release(&self, (owner, _): Held) -> Result<()> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("HDEL").arg(&self.keys.lock).arg(&owner);
        pipeline.cmd("PUBLISH").arg(&self.keys.channel).arg("0");
        let [removed, _]: [u64; 2] = pipeline.query_async(&mut self.connection.connection.clone()).await?;
        self.keys.released(removed)
    }

    fn token((_, token): &Held) -> Option<u64> {
        Some(*token)
    }
}

fn pair(replies: Vec<u64>) -> Result<[u64; 2]> {
    replies.try_into().map_err(|replies| format!("a release was answered by {replies:?}").into())
}
