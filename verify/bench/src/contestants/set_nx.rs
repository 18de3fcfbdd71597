//! The floor of most simple locks: `SET NX PX`, and a compare-and-delete script. It does not wait for a held lock.

use super::{
    Lock, Locks,
    floor::{LEASE_MS, Owners, Script, open},
};
use crate::Result;
use fred::{
    clients::Client,
    interfaces::ClientLike,
    types::{ClusterHash, CustomCommand},
};
use std::sync::Arc;

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
