//! Locks in ZooKeeper, and the least that such a lock costs: one transaction each, on the same client.

use super::{Lock, Locks};
use crate::Result;
use lock_core::LockFactory;
use lock_zookeeper::ZooKeeperBackend;
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error, MultiWriteError, MultiWriteResult};

/// The pause between two attempts of the floor.
const PAUSE: Duration = Duration::from_millis(2);

const KEPT: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());
const EPHEMERAL: CreateOptions<'static> = CreateMode::Ephemeral.with_acls(Acls::anyone_all());

/// Locks of this workspace.
pub(crate) struct ZooKeeper(LockFactory);

impl Locks for ZooKeeper {
    type Lock = lock_core::Lock;

    async fn connect(url: &str) -> Result<Self> {
        Ok(Self(LockFactory::new(ZooKeeperBackend::connect(url).await?)))
    }

    fn lock(&self, name: &str) -> Result<Self::Lock> {
        Ok(self.0.named(name)?)
    }
}

/// The floor.
pub(crate) struct ZooKeeperFloor(Client);

#[derive(Clone)]
pub(crate) struct FloorLock {
    client: Client,
    node: Arc<str>,
}

impl Locks for ZooKeeperFloor {
    type Lock = FloorLock;

    async fn connect(url: &str) -> Result<Self> {
        let connector = Client::connector().with_session_timeout(Duration::from_secs(40));
        Ok(Self(connector.connect(url.trim_start_matches("zookeeper://")).await?))
    }

    fn lock(&self, name: &str) -> Result<FloorLock> {
        Ok(FloorLock { client: self.0.clone(), node: format!("/floor/{}", name.replace('/', ":")).into() })
    }
}

impl Lock for FloorLock {
    /// The version of the node, and the number of the transaction.
    type Held = (i32, i64);

    async fn acquire(&self) -> Result<(i32, i64)> {
        loop {
            let mut multi = self.client.new_multi_writer();
            multi.add_set_data(&self.node, b"owner", None)?;
            multi.add_create(&format!("{}/owner", self.node), b"1", &EPHEMERAL)?;
            match multi.commit().await {
                Ok(results) => match results.first() {
                    Some(MultiWriteResult::SetData { stat }) => return Ok((stat.version, stat.mzxid)),
                    _ => return Err("no state of the node".into()),
                },
                Err(MultiWriteError::OperationFailed { source: Error::NodeExists, .. }) => sleep(PAUSE).await,
                Err(MultiWriteError::OperationFailed { source: Error::NoNode, .. }) => {
                    self.client.mkdir(&self.node, &KEPT).await?;
                }
                Err(error) => return Err(Error::from(error).into()),
            }
        }
    }

    async fn release(&self, (version, _): (i32, i64)) -> Result<()> {
        let mut multi = self.client.new_multi_writer();
        multi.add_check_version(&self.node, version)?;
        multi.add_delete(&format!("{}/owner", self.node), None)?;
        multi.commit().await.map_err(Error::from)?;
        Ok(())
    }

    fn token((_, zxid): &(i32, i64)) -> Option<u64> {
        u64::try_from(*zxid).ok()
    }
}
