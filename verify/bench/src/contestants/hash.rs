//! The hash floor: Redisson's two scripts written straight on fred. A waiter subscribes once for each name, and tries
//! again when a release is published. The process wakes one waiter a message.

use super::{
    Lock, Locks,
    floor::{LEASE_MS, Owners, Script, open},
};
use crate::Result;
use fred::{
    clients::Client,
    interfaces::{EventInterface, PubsubInterface},
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::{Notify, OnceCell};

pub(crate) struct Hash(Arc<Connections>);

struct Connections {
    commands: Client,
    subscriber: Client,
    acquire: Script,
    release: Script,
    owners: Owners,
    channels: Mutex<HashMap<String, Arc<Channel>>>,
}

#[derive(Default)]
struct Channel {
    subscribed: OnceCell<()>,
    released: Notify,
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
        let (commands, subscriber) = (open(url).await?, open(url).await?);
        let acquire = Script::load(&commands, include_str!("hash_acquire.lua")).await?;
        let release = Script::load(&commands, include_str!("hash_release.lua")).await?;
        let (mut messages, channels) = (subscriber.message_rx(), Mutex::default());
        let owners = Owners::new();
        let connections = Arc::new(Connections { commands, subscriber, acquire, release, owners, channels });
        let receiver = connections.clone();
        tokio::spawn(async move {
            while let Ok(message) = messages.recv().await {
                receiver.channel(&message.channel).released.notify_one();
            }
        });
        Ok(Self(connections))
    }

    fn lock(&self, name: &str) -> Result<HashLock> {
        let channel_name: Arc<str> = format!("released:{name}").into();
        let channel = self.0.channel(&channel_name);
        Ok(HashLock { connections: self.0.clone(), name: name.into(), channel_name, channel })
    }
}

impl Connections {
    fn channel(&self, name: &str) -> Arc<Channel> {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        channels.entry(name.to_owned()).or_default().clone()
    }
}

impl Lock for HashLock {
    type Held = String;

    async fn acquire(&self) -> Result<String> {
        let Connections { commands, subscriber, acquire, owners, .. } = &*self.connections;
        let owner = owners.next();
        loop {
            let left: Option<u64> = acquire.run(commands, &self.name, &[&owner, LEASE_MS]).await?;
            let Some(left) = left else { return Ok(owner) };
            let subscribe = || async { subscriber.subscribe(&*self.channel_name).await };
            if self.channel.subscribed.initialized() {
                // A message that is missed costs the rest of the lease.
                let _ =
                    tokio::time::timeout(Duration::from_millis(left), self.channel.released.notified()).await;
            } else {
                self.channel.subscribed.get_or_try_init(subscribe).await?;
            }
        }
    }

    async fn release(&self, owner: String) -> Result<()> {
        let Connections { commands, release, .. } = &*self.connections;
        let arguments = [owner.as_str(), LEASE_MS, &self.channel_name];
        match release.run(commands, &self.name, &arguments).await? {
            Some(1_u64) => Ok(()),
            other => Err(format!("the release of {} was answered by {other:?}", self.name).into()),
        }
    }
}
