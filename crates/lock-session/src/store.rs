//! The requests of a store with sessions.

use async_trait::async_trait;
use lock_core::{
    FencingToken, LockName,
    backend::{AcquireRequest, BackendError, LeaseId, ProcessId, Subscriptions},
};
use std::{fmt::Debug, time::Duration};

/// A session that has not ended, as far as is known. All locks that it has end with it.
///
/// `D` is what else the store knows of it.
#[derive(Debug, Clone)]
pub struct Session<D> {
    /// Its number in the store.
    pub id: i64,
    /// The version of its marker.
    pub marker: i64,
    /// The rest that the store knows of it.
    pub detail: D,
}

/// A lock as it is stored.
#[derive(Debug, Clone)]
pub struct Stored<G> {
    /// The text of the lease that has the lock.
    pub lease: String,
    /// The number of its holders, at least 1.
    pub depth: u32,
    /// Identifies the grant: no two grants of a lock are equal, even to the same lease.
    pub grant: G,
}

/// A lock of this process.
#[derive(Debug, Clone)]
pub struct OwnLock<G> {
    /// Its name.
    pub name: LockName,
    /// The lease that has it.
    pub lease: LeaseId,
    /// The grant.
    pub grant: G,
}

/// The answer to [`SessionStore::take`].
#[derive(Debug)]
pub enum Take<G> {
    /// The lease has the lock, and its session lasts for its whole length from the request on.
    Taken {
        /// The grant.
        grant: G,
        /// The tokens of the grant: greater than those of all earlier grants of this lock.
        first: FencingToken,
        /// The last one; at most the reserve of the request after the first.
        last: FencingToken,
    },
    /// Another lease has the lock, and the marker has still the version of the session.
    Busy,
    /// Nothing was changed, since the marker has another version. `None` if the session has ended.
    Outdated(Option<i64>),
    /// It may have been executed, but the session is to be replaced by a new one.
    Replace,
}

/// The requests of a store, each of which the store executes as a whole, or not at all.
///
/// A future may be dropped at any await; its request may or may not be executed then, even later.
///
/// # The marker
/// Each session has a *marker*, an entry with a version, which [`mark`](Self::mark) raises. [`take`](Self::take) changes
/// nothing unless the marker has the version of the session that it was called with. So no attempt that was sent before a
/// mark can be executed after it. The marker ends with the session.
#[async_trait]
pub trait SessionStore: Debug + Send + Sync + 'static {
    /// The part of a session that only the store knows.
    type Detail: Clone + Debug + Send + Sync;
    /// Identifies a grant.
    type Grant: Copy + PartialEq + Debug + Send + Sync;

    /// The wake-ups of the store.
    type Wakes: Subscriptions;

    /// Returns the wake-ups.
    fn wakes(&self) -> &Self::Wakes;

    /// The name of the store in errors and metrics, such as `etcd`.
    fn name(&self) -> &'static str;

    /// The longest lease, for which each renewal of a session lasts.
    fn max_lease(&self) -> Duration;

    /// Begins a session, and writes its marker.
    async fn begin(&self) -> Result<Session<Self::Detail>, BackendError>;

    /// Raises the version of the marker, and returns it; `None` if the session has ended.
    async fn mark(&self, session: &Session<Self::Detail>) -> Result<Option<i64>, BackendError>;

    /// Called when another session was begun in place of this one, which has the locks until they are moved.
    fn replaced(&self, old: &Session<Self::Detail>) {
        let _ = old;
    }

    /// Takes a free lock, or one that the lease has already, if the marker has the version of the session.
    async fn take(
        &self,
        session: &Session<Self::Detail>,
        request: &AcquireRequest,
    ) -> Result<Take<Self::Grant>, BackendError>;

    /// Makes all later tokens greater than this one.
    async fn raise_tokens(&self, floor: FencingToken) -> Result<(), BackendError>;

    /// Reads who has a lock. The answer is not older than the call.
    async fn read(&self, name: &LockName) -> Result<Option<Stored<Self::Grant>>, BackendError>;

    /// Deletes a lock, if it is still that of this grant. Returns `false` if it is not.
    async fn delete(&self, name: &LockName, grant: Self::Grant) -> Result<bool, BackendError>;

    /// Changes the depth of a lock of this session, if it is still that of this grant, and renews the session. Returns
    /// `false` if it is not.
    async fn set_depth(
        &self,
        session: &Session<Self::Detail>,
        lock: &OwnLock<Self::Grant>,
        depth: u32,
    ) -> Result<bool, BackendError>;

    /// Renews the session, and says for each of the locks whether it is still that of its grant, and of this session.
    /// Returns `None` if the session has ended.
    async fn renew(
        &self,
        session: &Session<Self::Detail>,
        locks: &[OwnLock<Self::Grant>],
    ) -> Result<Option<Vec<bool>>, BackendError>;

    /// Writes the card of a process, which ends with the session.
    async fn write_card(
        &self,
        session: &Session<Self::Detail>,
        process: ProcessId,
        card: String,
    ) -> Result<(), BackendError>;

    /// Deletes the card of a process, if there is one.
    async fn remove_card(&self, process: ProcessId) -> Result<(), BackendError>;

    /// Reads the card of a process.
    async fn read_card(&self, process: ProcessId) -> Result<Option<Vec<u8>>, BackendError>;

    /// Reads the names of held locks that begin with a prefix: at most this many.
    async fn names(&self, prefix: &str, limit: usize) -> Result<Vec<String>, BackendError>;
}
