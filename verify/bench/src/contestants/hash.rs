//! The hash floor: Redisson's two scripts, sent directly through fred. A waiter tries again when a release is published. Also
//! its variants: behind a queue, with a hand-off, and on a quorum.

use super::{
    ByName, Lock, Locks,
    floor::{LEASE_MS, Owners, Script, open},
    nodes,
};
use crate::Result;
use fred::{
    clients::Client,
    interfaces::{EventInterface, PubsubInterface},
};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Mutex, Notify, OnceCell, OwnedMutexGuard, broadcast::error::RecvError};

/// Maximum number of times that a lease is passed to the next task of the process.
const MAX_PASSES: u32 = 64;

pub(crate) struct Hash(Arc<Connections>);

struct Connections {
    server: Server,
    channels: Channels,
    owners: Owners,
}

/// A server that has loaded the two scripts.
struct Server {
    client: Client,
    acquire: Script,
    release: Script,
}

impl Server {
    async fn connect(url: &str) -> Result<Self> {
        let client = open(url).await?;
        let acquire = Script::load(&client, include_str!("hash_acquire.lua")).await?;
        let release = Script::load(&client, include_str!("hash_release.lua")).await?;
        Ok(Self { client, acquire, release })
    }
}

#[derive(Clone)]
pub(crate) struct HashLock {
    connections: Arc<Connections>,
    name: Arc<str>,
    channel_name: Arc<str>,
    channel: Arc<Channel>,
}

impl Locks for Hash {
    type Lock = HashLock;

    async fn connect(url: &str) -> Result<Self> {
        let (server, channels) = (Server::connect(url).await?, Channels::connect(url).await?);
        Ok(Self(Arc::new(Connections { server, channels, owners: Owners::new() })))
    }

    fn lock(&self, name: &str) -> Result<HashLock> {
        let channel_name: Arc<str> = format!("released:{name}").into();
        let channel = self.0.channels.by_name.get(&channel_name);
        Ok(HashLock { connections: self.0.clone(), name: name.into(), channel_name, channel })
    }
}

impl Lock for HashLock {
    type Held = String;

    async fn acquire(&self) -> Result<String> {
        let Connections { server: Server { client, acquire, .. }, channels, owners } = &*self.connections;
        let owner = owners.next();
        loop {
            match acquire.run(client, &[&self.name], &[&owner, LEASE_MS]).await? {
                None => return Ok(owner),
                Some(lease) => {
                    channels.wait(&self.channel_name, &self.channel, Duration::from_millis(lease)).await?;
                }
            }
        }
    }

    async fn release(&self, owner: String) -> Result<()> {
        let Server { client, release, .. } = &self.connections.server;
        let arguments = [owner.as_str(), LEASE_MS, &self.channel_name];
        match release.run(client, &[&self.name], &arguments).await? {
            Some(1_u64) => Ok(()),
            other => Err(format!("the release of {} was answered by {other:?}", self.name).into()),
        }
    }
}

/// Release messages. A process subscribes once for each name and wakes one waiter per message.
struct Channels {
    subscriber: Client,
    by_name: Arc<ByName<Channel>>,
}

#[derive(Default)]
struct Channel {
    subscribed: OnceCell<()>,
    released: Notify,
}

impl Channels {
    async fn connect(url: &str) -> Result<Self> {
        let subscriber = open(url).await?;
        let (mut messages, by_name) = (subscriber.message_rx(), Arc::<ByName<Channel>>::default());
        let listening = by_name.clone();
        tokio::spawn(async move {
            loop {
                let message = messages.recv().await;
                let channels = listening.all();
                match message {
                    Ok(message) => {
                        channels.get(&*message.channel).into_iter().for_each(|it| it.released.notify_one())
                    }
                    // fred dropped messages without reporting their names, so one waiter of every name is woken.
                    Err(RecvError::Lagged(_)) => channels.values().for_each(|it| it.released.notify_one()),
                    Err(RecvError::Closed) => break,
                }
            }
        });
        Ok(Self { subscriber, by_name })
    }

    /// Waits for a release, at most for the remaining lease of the holder. The first waiter only subscribes and
    /// returns, so that it tries to acquire the lock again.
    async fn wait(&self, name: &str, channel: &Channel, lease: Duration) -> Result<()> {
        if channel.subscribed.initialized() {
            let _ = tokio::time::timeout(lease, channel.released.notified()).await;
        } else {
            channel.subscribed.get_or_try_init(|| self.subscriber.subscribe(name)).await?;
        }
        Ok(())
    }
}

/// The hash floor behind a queue: only one task of a process at a time requests a name from Redis.
pub(crate) struct Queue {
    hash: Hash,
    queues: ByName<Mutex<()>>,
}

#[derive(Clone)]
pub(crate) struct QueueLock {
    hash: <Hash as Locks>::Lock,
    queue: Arc<Mutex<()>>,
}

impl Locks for Queue {
    type Lock = QueueLock;

    async fn connect(url: &str) -> Result<Self> {
        Ok(Self { hash: Hash::connect(url).await?, queues: ByName::default() })
    }

    fn lock(&self, name: &str) -> Result<QueueLock> {
        Ok(QueueLock { hash: self.hash.lock(name)?, queue: self.queues.get(name) })
    }
}

impl Lock for QueueLock {
    type Held = (OwnedMutexGuard<()>, String);

    async fn acquire(&self) -> Result<Self::Held> {
        let first = self.queue.clone().lock_owned().await;
        Ok((first, self.hash.acquire().await?))
    }

    async fn release(&self, (_first, owner): Self::Held) -> Result<()> {
        self.hash.release(owner).await
    }
}

/// The hash floor with a hand-off: a lease is passed to the next task of the process before it is released on Redis.
pub(crate) struct HandOff {
    hash: Hash,
    names: ByName<Name>,
}

#[derive(Default)]
struct Name {
    waiting: AtomicUsize,
    lease: Arc<Mutex<Option<Lease>>>,
}

pub(crate) struct Lease {
    owner: String,
    passes: u32,
}

#[derive(Clone)]
pub(crate) struct HandOffLock {
    hash: <Hash as Locks>::Lock,
    name: Arc<Name>,
}

impl Locks for HandOff {
    type Lock = HandOffLock;

    async fn connect(url: &str) -> Result<Self> {
        Ok(Self { hash: Hash::connect(url).await?, names: ByName::default() })
    }

    fn lock(&self, name: &str) -> Result<HandOffLock> {
        Ok(HandOffLock { hash: self.hash.lock(name)?, name: self.names.get(name) })
    }
}

impl Lock for HandOffLock {
    type Held = OwnedMutexGuard<Option<Lease>>;

    async fn acquire(&self) -> Result<Self::Held> {
        self.name.waiting.fetch_add(1, Ordering::Relaxed);
        let mut lease = self.name.lease.clone().lock_owned().await;
        self.name.waiting.fetch_sub(1, Ordering::Relaxed);
        if lease.is_none() {
            *lease = Some(Lease { owner: self.hash.acquire().await?, passes: 0 });
        }
        Ok(lease)
    }

    async fn release(&self, mut held: Self::Held) -> Result<()> {
        let Some(Lease { owner, passes }) = held.take() else {
            return Err("a lease was handed off twice".into());
        };
        if passes < MAX_PASSES && self.name.waiting.load(Ordering::Relaxed) > 0 {
            *held = Some(Lease { owner, passes: passes + 1 });
            return Ok(());
        }
        self.hash.release(owner).await
    }
}

/// The floor of a quorum: runs the scripts of the hash floor on all nodes at once until a majority has answered. It
/// does not wait for a held lock, and undoes nothing.
pub(crate) struct QuorumFloor(Arc<Nodes>);

struct Nodes {
    servers: Vec<Server>,
    owners: Owners,
}

#[derive(Clone)]
pub(crate) struct QuorumFloorLock {
    nodes: Arc<Nodes>,
    name: Arc<str>,
    channel: Arc<str>,
}

impl Locks for QuorumFloor {
    type Lock = QuorumFloorLock;

    async fn connect(url: &str) -> Result<Self> {
        let mut servers = Vec::new();
        for node in nodes(url) {
            servers.push(Server::connect(&node).await?);
        }
        Ok(Self(Arc::new(Nodes { servers, owners: Owners::new() })))
    }

    fn lock(&self, name: &str) -> Result<QuorumFloorLock> {
        let channel = format!("released:{name}").into();
        Ok(QuorumFloorLock { nodes: self.0.clone(), name: name.into(), channel })
    }
}

impl QuorumFloorLock {
    /// Runs one of the scripts on every node, and returns once a majority has given this answer.
    async fn ask(
        &self,
        script: fn(&Server) -> &Script,
        arguments: &[&str],
        wanted: Option<u64>,
    ) -> Result<()> {
        let servers = &self.nodes.servers;
        let asked = |server| async move {
            script(server).run::<Option<u64>>(&server.client, &[&self.name], arguments).await
        };
        let mut answers: FuturesUnordered<_> = servers.iter().map(asked).collect();
        let mut votes = 0;
        while let Some(answer) = answers.next().await {
            votes += usize::from(answer? == wanted);
            if votes > servers.len() / 2 {
                return Ok(());
            }
        }
        Err(format!("{} has no majority, and this floor does not wait", self.name).into())
    }
}

impl Lock for QuorumFloorLock {
    type Held = String;

    async fn acquire(&self) -> Result<String> {
        let owner = self.nodes.owners.next();
        self.ask(|server| &server.acquire, &[&owner, LEASE_MS], None).await?;
        Ok(owner)
    }

    async fn release(&self, owner: String) -> Result<()> {
        self.ask(|server| &server.release, &[&owner, LEASE_MS, &self.channel], Some(1)).await
    }
}
