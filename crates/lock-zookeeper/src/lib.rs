//! Locks for [`lock_core`] in Apache ZooKeeper, whose servers decide by majority: no grant is lost when a minority of them
//! fails.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
//! use lock_core::LockFactory;
//! use lock_zookeeper::ZooKeeperBackend;
//!
//! let locks = LockFactory::new(ZooKeeperBackend::connect("zookeeper://host1,host2,host3/shop").await?);
//! let guard = locks.named("stock:42")?.acquire().await?;
//! println!("held with token {}", guard.fencing_token());
//! println!("{:?}", guard.release().await); // no `?`: the work is done even if the release is not confirmed
//! # Ok(()) }
//! ```
//!
//! # Features
//! | feature | default | adds |
//! | --- | --- | --- |
//! | `tls-aws-lc-rs` | off | `zookeepers://`, on rustls with aws-lc-rs |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod connection;
mod dial;
mod error;
mod leases;
mod place;
mod server;
mod wakes;

use async_trait::async_trait;
use lock_core::{
    __private::{OnWorker, no_runtime},
    LockError, Store, Worker,
    backend::{Applied, BackendError, BackendErrorKind, Connector},
};
use lock_session::SessionLocks;
use place::Place;
use server::Server;
use std::{fmt, sync::Arc, time::Duration};

/// The time limit for connecting.
const CONNECTS_WITHIN: Duration = Duration::from_secs(10);

/// Locks in a ZooKeeper ensemble.
///
/// Created by [`connect`](Self::connect). Clones share their connection and their session, which ends soon after the last clone,
/// unless the process ends first.
///
/// # Guarantees
/// The [store rules](lock_core::backend::Backend#contract) apply. Grants, renewals and releases are decided by a majority of
/// the servers, and on their disks before they are reported: the loss of a minority, or a new leader, loses none.
///
/// - **A process that dies keeps its locks for the session**: `?session=40s`, whatever the lease of a lock is. A lease can be
///   shorter: it ends earlier only while its process lives. It can be as long as 3/4 of the session: a leader hears of a
///   session only now and then, and counts its length from there. A factory without options uses leases of 30 s, or of 3/4
///   of the session if that is shorter. The session must be at least four times as long as the `tickTime` of the servers,
///   which is 2 s by default.
/// - **A late request is refused**: each acquire checks the version of a node of the session, the *marker*, which is written
///   again after an acquire whose outcome is unknown.
/// - **Tokens** are the number of the transaction (zxid) times 16, plus an offset, which
///   [`token_floor`](lock_core::LockOptions::token_floor) raises. They are below 2⁵³ for the first 131,072 elections of a leader;
///   after that, acquires are refused. After a restore from a backup they fall, unless the floor is raised.
///
/// # Wake-ups
/// Waiters watch the owner of their lock: a release, and the end of a session, wake them.
///
/// # Stored data
/// Under the path of the URL, or `/distlock`, whose data is the offset of tokens: `lock/<name>`, a container with the lease of the
/// last grant, which the servers delete when it is empty; in it `owner`, with the depth, and a node named like the lease while the lock is held;
/// `session/<id>` and `card/<process>`. Owners, markers and cards end with the session. In names, `/`, `%`, a leading dot, and all
/// but ASCII are percent-encoded.
///
/// With a login (`digest`), all nodes belong to it alone.
#[derive(Clone)]
pub struct ZooKeeperBackend {
    inner: Arc<OnWorker<SessionLocks<Server>>>,
}

impl ZooKeeperBackend {
    /// Connects to an ensemble, begins a session, and creates the nodes that are always there.
    ///
    /// The URL is `zookeeper://user:password@host1:2181,host2,host3/path`, or `zookeepers://` with TLS (feature `tls-aws-lc-rs`),
    /// and these parameters:
    ///
    /// | parameter | default | |
    /// | --- | --- | --- |
    /// | `session` | `40s` | the time after which the locks of a process that died are free; whole seconds, `8s` to `86400s`, at least four times the `tickTime` of the servers, and not more than they grant: 20 times `tickTime`, which is 2 s by default |
    /// | `ca` | required by `zookeepers://` | the file with the certificates of the authority, in PEM |
    ///
    /// # Errors
    /// - [`LockErrorKind::InvalidUrl`](lock_core::LockErrorKind::InvalidUrl) if the URL cannot be used;
    /// - [`LockErrorKind::Backend`](lock_core::LockErrorKind::Backend) if a right is missing, or the servers grant only shorter
    ///   sessions;
    /// - [`LockErrorKind::Unavailable`](lock_core::LockErrorKind::Unavailable) if no server answers.
    ///
    /// It takes at most 10 s.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        let backend = Self::connect_lazy(url)?;
        let connecting = async |locks: Arc<SessionLocks<Server>>| {
            let connected = tokio::time::timeout(CONNECTS_WITHIN, locks.connect()).await;
            connected.unwrap_or_else(|_| {
                let message = "no server of ZooKeeper has answered in time";
                Err(BackendError::new(BackendErrorKind::Unavailable, Applied::Unknown, message))
            })
        };
        backend.inner.run(connecting).await?;
        Ok(backend)
    }

    /// Uses an ensemble without connecting yet. Each request tries to connect until that succeeds.
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidUrl`](lock_core::LockErrorKind::InvalidUrl) if the URL cannot be used.
    pub fn connect_lazy(url: &str) -> Result<Self, LockError> {
        let place = Place::parse(url)?;
        let keeper = Worker::keeper().map_err(|error| no_runtime(error.to_string()))?;
        let inner = SessionLocks::new(Arc::new(Server::new(place)?)).on(keeper.clone());
        let kept = inner.inner().clone();
        let inner = inner.beside(async move |ended| {
            kept.store().connection.keep(ended, || !kept.ends().is_empty()).await;
            // The keeper lives until the session has ended.
            drop(keeper);
        });
        Ok(Self { inner: Arc::new(inner) })
    }
}

impl fmt::Debug for ZooKeeperBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ZooKeeperBackend").field(self.inner.inner().store()).finish()
    }
}

impl From<ZooKeeperBackend> for Store {
    fn from(backend: ZooKeeperBackend) -> Self {
        Self::from(backend.inner.clone()).with_directory(backend.inner)
    }
}

/// Connects URLs like `zookeeper://host1,host2,host3/path`, for [`Connectors`](lock_core::Connectors).
#[derive(Debug, Clone, Copy, Default)]
pub struct ZooKeeper;

#[async_trait]
impl Connector for ZooKeeper {
    fn schemes(&self) -> &[&'static str] {
        place::SCHEMES
    }

    async fn connect(&self, url: &str) -> Result<Store, LockError> {
        Ok(ZooKeeperBackend::connect(url).await?.into())
    }

    fn connect_lazy(&self, url: &str) -> Result<Store, LockError> {
        Ok(ZooKeeperBackend::connect_lazy(url)?.into())
    }
}

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
