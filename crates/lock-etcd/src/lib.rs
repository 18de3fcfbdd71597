//! Locks for [`lock_core`] in etcd, whose servers decide by majority: no grant is lost when a minority of them fails.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
//! use lock_core::LockFactory;
//! use lock_etcd::EtcdBackend;
//!
//! let locks = LockFactory::new(EtcdBackend::connect("etcd://host1,host2,host3").await?);
//! let guard = locks.named("stock:42")?.acquire().await?;
//! println!("held with token {}", guard.fencing_token());
//! println!("{:?}", guard.release().await); // no `?`: the work is done even if the release is not confirmed
//! # Ok(()) }
//! ```
//!
//! # Features
//! | feature | default | adds |
//! | --- | --- | --- |
//! | `tls-ring`, `tls-aws-lc-rs` | off | `etcds://`, on rustls with ring or aws-lc-rs |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod client;
mod error;
mod keeping;
mod leases;
mod place;
mod server;
mod wakes;
mod wire;

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

/// The time limits for connecting, and for one attempt.
const CONNECTS_WITHIN: Duration = Duration::from_secs(5);
const ANSWERS_WITHIN: Duration = Duration::from_millis(1_500);

/// Locks in an etcd cluster.
///
/// Created by [`connect`](Self::connect). Clones share their connections and their session, which end with the last clone.
///
/// # Guarantees
/// The [store rules](lock_core::backend::Backend#contract) apply. Grants and releases are decided by a majority of the
/// servers, and on their disks before they are reported: the loss of a minority, or a new leader, loses none.
///
/// - **A process that dies keeps its locks for the session**: `?session=40s`, whatever the lease of a lock is. A lease can be
///   shorter: it ends earlier only while its process lives. It cannot be longer, and with more
///   than 3/4 of the session, each grant costs a renewal of the session. A factory without options uses leases of 30 s, or of
///   the session if that is shorter.
/// - **A grant and a renewal count only if the session was renewed in time**, under the same leader.
/// - **After a change of the leader, the locks are moved to a new session**, within an eighth of its length: a former leader
///   that hung, and comes back, may end sessions that began under it, although its successor has renewed them (etcd issues
///   15247, 12528). etcd 3.4.31, 3.5.13 and later ignore most of such requests; connecting warns of older ones.
/// - **A late request is refused**: each acquire compares the revision of a key of the session, the *marker*, which is
///   written again after an acquire whose outcome is unknown.
/// - **Tokens** are the revision of the store times 512, plus an offset, which
///   [`token_floor`](lock_core::LockOptions::token_floor) raises. They begin near 0. After a restore from a backup they fall,
///   unless the revision is bumped or the floor is raised.
///
/// # Wake-ups
/// Waiters watch the key of their lock, over one stream for all: a release, and the end of a session, wake them.
///
/// # Stored data
/// Keys that begin with `distlock/`, or with `?prefix=`: `lock/<name>` with the lease, `depth/<name>` if it was entered again,
/// `session/<id>`, `card/<process>`, which all end with the session, and `offset`.
#[derive(Clone)]
pub struct EtcdBackend {
    inner: Arc<OnWorker<SessionLocks<Server>>>,
}

impl EtcdBackend {
    /// Connects to a cluster, and begins a session.
    ///
    /// The URL is `etcd://user:password@host1:2379,host2,host3`, or `etcds://` with TLS (features `tls-ring` and
    /// `tls-aws-lc-rs`), and these parameters:
    ///
    /// | parameter | default | |
    /// | --- | --- | --- |
    /// | `session` | `40s` | the time after which the locks of a process that died are free; whole seconds, `5s` to `86400s` |
    /// | `prefix` | `distlock/` | all keys begin with it |
    /// | `ca` | the system's | with `etcds://`: the file with the certificate of the authority |
    ///
    /// # Errors
    /// - [`LockErrorKind::InvalidUrl`](lock_core::LockErrorKind::InvalidUrl) if the URL cannot be used;
    /// - [`LockErrorKind::Backend`](lock_core::LockErrorKind::Backend) if the login is refused or a right is missing;
    /// - [`LockErrorKind::Unavailable`](lock_core::LockErrorKind::Unavailable) if no majority of the servers answers.
    ///
    /// It takes at most 5 s.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        let backend = Self::connect_lazy(url)?;
        backend.inner.run(async |locks: Arc<SessionLocks<Server>>| begin(&locks).await).await?;
        Ok(backend)
    }

    /// Uses a cluster without connecting yet. Each request tries to connect until that succeeds.
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidUrl`](lock_core::LockErrorKind::InvalidUrl) if the URL cannot be used.
    pub fn connect_lazy(url: &str) -> Result<Self, LockError> {
        let place = Place::parse(url)?;
        let keeper = Worker::keeper().map_err(|error| no_runtime(error.to_string()))?;
        let entered = keeper.handle().enter();
        let server = Arc::new(Server::new(place)?);
        drop(entered);
        let inner = SessionLocks::new(server.clone()).on(keeper.clone());
        let kept = inner.inner().clone();
        let inner = inner
            .beside(async move |ended| {
                keeping::keep(&kept, ended).await;
                // The keeper lives until the session has ended.
                drop(keeper);
            })
            .beside(async move |ended| {
                tokio::select! {
                    () = server.wakes.watch() => {}
                    _ = ended => {}
                }
            });
        Ok(Self { inner: Arc::new(inner) })
    }
}

/// Begins a session with the first server that does it: one may hang, and others may be down.
async fn begin(locks: &SessionLocks<Server>) -> Result<(), BackendError> {
    let begun = tokio::time::Instant::now();
    let mut attempts = 0;
    loop {
        let ready = tokio::time::timeout(ANSWERS_WITHIN, locks.connect()).await;
        let error = match ready {
            Ok(Ok(())) => {
                let checked = tokio::time::timeout(ANSWERS_WITHIN, locks.store().check_version());
                return checked.await.or(Ok(()));
            }
            Ok(Err(error)) => error,
            Err(_) => {
                let message = "no majority of the servers of etcd has answered in time";
                BackendError::new(BackendErrorKind::Unavailable, Applied::Unknown, message)
            }
        };
        attempts += 1;
        let is_over = attempts > locks.store().place.servers.len()
            || begun.elapsed() >= CONNECTS_WITHIN - ANSWERS_WITHIN;
        if is_over || error.kind() != BackendErrorKind::Unavailable {
            return Err(error);
        }
    }
}

impl fmt::Debug for EtcdBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EtcdBackend").field(self.inner.inner().store()).finish()
    }
}

impl From<EtcdBackend> for Store {
    fn from(backend: EtcdBackend) -> Self {
        Self::from(backend.inner.clone()).with_directory(backend.inner)
    }
}

/// Connects URLs like `etcd://host1,host2,host3`, for [`Connectors`](lock_core::Connectors).
#[derive(Debug, Clone, Copy, Default)]
pub struct Etcd;

#[async_trait]
impl Connector for Etcd {
    fn schemes(&self) -> &[&'static str] {
        place::SCHEMES
    }

    async fn connect(&self, url: &str) -> Result<Store, LockError> {
        Ok(EtcdBackend::connect(url).await?.into())
    }

    fn connect_lazy(&self, url: &str) -> Result<Store, LockError> {
        Ok(EtcdBackend::connect_lazy(url)?.into())
    }
}

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
