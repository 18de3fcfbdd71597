//! The hash floor: Redisson's two scripts, sent directly through fred. A waiter tries again when a release is
//! published.

use super::{
    Lock, Locks,
    channels::{Channel, Channels},
    floor::{LEASE_MS, Owners, Script, open},
};
use crate::Result;
use fred::clients::Client;
use std::{sync::Arc, time::Duration};

pub(crate) struct Hash(Arc<Connections>);

struct Connections {
    client: Client,
    channels: Channels,
    acquire: Script,
    release: Script,
    owners: Owners,
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
        let (client, channels) = (open(url).await?, Channels::connect(url).await?);
        let acquire = Script::load(&client, include_str!("hash_acquire.lua")).await?;
        let release = Script::load(&client, include_str!("hash_release.lua")).await?;
        Ok(Self(Arc::new(Connections { client, channels, acquire, release, owners: Owners::new() })))
    }

    fn lock(&self, name: &str) -> Result<HashLock> {
        let channel_name: Arc<str> = format!("released:{name}").into();
        let channel = self.0.channels.get(&channel_name);
        Ok(HashLock { connections: self.0.clone(), name: name.into(), channel_name, channel })
    }
}

impl Lock for HashLock {
    type Held = String;

    async fn acquire(&self) -> Result<String> {
        let Connections { client, channels, acquire, owners, .. } = &*self.connections;
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
        let Connections { client, release, .. } = &*self.connections;
        let arguments = [owner.as_str(), LEASE_MS, &self.channel_name];
        match release.run(client, &[&self.name], &arguments).await? {
            Some(1_u64) => Ok(()),
            other => Err(format!("the release of {} was answered by {other:?}", self.name).into()),
        }
    }
}
