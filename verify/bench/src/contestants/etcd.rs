//! Locks in etcd, and the least that such a lock costs: one transaction each, on the same client.

use super::{Lock, Locks};
use crate::Result;
use http::uri::PathAndQuery;
use lock_core::LockFactory;
use lock_etcd::EtcdBackend;
use prost::Message;
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;
use tonic::{
    Request,
    client::Grpc,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;
use uuid::Uuid;

/// The pause between two attempts of the floor.
const PAUSE: Duration = Duration::from_millis(2);

/// Properties that a transaction compares.
const CREATED: i32 = 1;
const CHANGED: i32 = 2;

/// Locks of this workspace.
pub(crate) struct Etcd(LockFactory);

impl Locks for Etcd {
    type Lock = lock_core::Lock;

    async fn connect(url: &str) -> Result<Self> {
        Ok(Self(LockFactory::new(EtcdBackend::connect(url).await?)))
    }

    fn lock(&self, name: &str) -> Result<Self::Lock> {
        Ok(self.0.named(name)?)
    }
}

/// The floor, whose keys belong to one lease of etcd.
pub(crate) struct EtcdFloor {
    client: Grpc<Channel>,
    lease: i64,
}

#[derive(Clone)]
pub(crate) struct FloorLock {
    client: Grpc<Channel>,
    lease: i64,
    key: Arc<str>,
}

#[derive(Clone, PartialEq, Message)]
struct Grant {
    #[prost(int64, tag = "1")]
    ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Granted {
    #[prost(int64, tag = "2")]
    id: i64,
}

/// A condition on a revision of a key.
#[derive(Clone, PartialEq, Message)]
struct Compare {
    #[prost(int32, tag = "2")]
    target: i32,
    #[prost(string, tag = "3")]
    key: String,
    #[prost(int64, optional, tag = "5")]
    created: Option<i64>,
    #[prost(int64, optional, tag = "6")]
    changed: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Put {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
    #[prost(int64, tag = "3")]
    lease: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Delete {
    #[prost(string, tag = "1")]
    key: String,
}

#[derive(Clone, PartialEq, Message)]
struct Operation {
    #[prost(message, optional, tag = "2")]
    put: Option<Put>,
    #[prost(message, optional, tag = "3")]
    delete: Option<Delete>,
}

#[derive(Clone, PartialEq, Message)]
struct Txn {
    #[prost(message, repeated, tag = "1")]
    compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    success: Vec<Operation>,
}

#[derive(Clone, PartialEq, Message)]
struct Header {
    #[prost(int64, tag = "3")]
    revision: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Done {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(bool, tag = "2")]
    succeeded: bool,
}

async fn call<Q, R>(client: &Grpc<Channel>, path: &'static str, message: Q) -> Result<R>
where
    Q: Message + Send + Sync + 'static,
    R: Message + Default + Send + Sync + 'static,
{
    let mut client = client.clone();
    client.ready().await?;
    let path = PathAndQuery::from_static(path);
    let answer = client.unary(Request::new(message), path, ProstCodec::<Q, R>::default()).await?;
    Ok(answer.into_inner())
}

impl Locks for EtcdFloor {
    type Lock = FloorLock;

    async fn connect(url: &str) -> Result<Self> {
        let endpoint = Endpoint::from_shared(url.replace("etcd://", "http://"))?.tcp_nodelay(true);
        let client = Grpc::new(endpoint.connect().await?);
        let granted: Granted = call(&client, "/etcdserverpb.Lease/LeaseGrant", Grant { ttl: 600 }).await?;
        Ok(Self { client, lease: granted.id })
    }

    fn lock(&self, name: &str) -> Result<FloorLock> {
        Ok(FloorLock { client: self.client.clone(), lease: self.lease, key: format!("floor/{name}").into() })
    }
}

impl FloorLock {
    async fn transact(&self, compare: Compare, operation: Operation) -> Result<Done> {
        let txn = Txn { compare: vec![compare], success: vec![operation] };
        call(&self.client, "/etcdserverpb.KV/Txn", txn).await
    }
}

impl Lock for FloorLock {
    /// The revision of the key.
    type Held = i64;

    async fn acquire(&self) -> Result<i64> {
        let value = Uuid::new_v4().to_string();
        loop {
            let free =
                Compare { target: CREATED, key: self.key.to_string(), created: Some(0), changed: None };
            let put = Put { key: self.key.to_string(), value: value.clone(), lease: self.lease };
            let done = self.transact(free, Operation { put: Some(put), delete: None }).await?;
            match done.succeeded {
                true => return Ok(done.header.unwrap_or_default().revision),
                false => sleep(PAUSE).await,
            }
        }
    }

    async fn release(&self, revision: i64) -> Result<()> {
        let own =
            Compare { target: CHANGED, key: self.key.to_string(), created: None, changed: Some(revision) };
        let delete = Delete { key: self.key.to_string() };
        match self.transact(own, Operation { put: None, delete: Some(delete) }).await?.succeeded {
            true => Ok(()),
            false => Err(format!("{} was lost before its release", self.key).into()),
        }
    }

    fn token(revision: &i64) -> Option<u64> {
        u64::try_from(*revision).ok()
    }
}
