//! The requests of locks: each is one transaction (`multi`) of ZooKeeper.

use crate::{
    error::{failed, has_ended, refused},
    server::{Server, Session},
    wakes::Wakes,
};
use async_trait::async_trait;
use futures_util::future::join_all;
use lock_core::{
    FencingToken, LockName,
    backend::{AcquireMode, AcquireRequest, Applied, BackendError, BackendErrorKind, LeaseId, ProcessId},
};
use lock_session::{OwnLock, SessionStore, Stored, Take};
use std::time::Duration;
use zookeeper_client::{Client, CreateMode, Error, MultiWriteError, MultiWriteResult, MultiWriter};

/// The locks that are renewed by a transaction.
const AT_ONCE: usize = 100;

/// The forms of an acquire that are tried one after the other, since others change the lock meanwhile.
const FORMS: u32 = 64;

/// Any version.
const ANY: i32 = -1;

/// A lock's node whose version is greater is deleted with its owner, before the version overflows.
const LAST_VERSION: i32 = i32::MAX / 2;

/// A grant: the version of the lock's node, which does not come back while the node of the grant is there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Grant {
    version: i32,
    /// The lease, which names the node of the grant; `None` if the lock's node has other data.
    lease: Option<LeaseId>,
    /// The session that has it, if it was granted to this process.
    session: Option<i64>,
}

/// The form of an acquire.
#[derive(Clone, Copy)]
enum Form {
    /// The lock has a node, and no owner.
    Known,
    /// The lock has no node.
    Fresh,
    /// The lease has the lock by an earlier attempt, which was granted with this version.
    Again(i32),
}

#[async_trait]
impl SessionStore for Server {
    type Detail = ();
    type Grant = Grant;
    type Wakes = Wakes;

    fn wakes(&self) -> &Wakes {
        &self.wakes
    }

    fn name(&self) -> &'static str {
        "zookeeper"
    }

    fn max_lease(&self) -> Duration {
        self.connection.place.max_lease()
    }

    async fn begin(&self) -> Result<Session, BackendError> {
        self.begin_session().await
    }

    async fn mark(&self, session: &Session) -> Result<Option<i64>, BackendError> {
        self.write_marker(session).await
    }

    async fn take(&self, session: &Session, request: &AcquireRequest) -> Result<Take<Grant>, BackendError> {
        let mut form = Form::Known;
        for _ in 0..FORMS {
            let Some(client) = self.client_of(session).await? else { return Ok(Take::Outdated(None)) };
            let offset = self.offset(&client).await?;
            let (at, error) = match self.acquire(&client, session, request, offset.version, form).await {
                Ok(stat) => {
                    let (version, lease) = (stat.version, Some(request.lease));
                    let grant = Grant { version, lease, session: Some(session.id) };
                    let (first, last) = self.tokens(stat.mzxid, offset, reserve(request))?;
                    return Ok(Take::Taken { grant, first, last });
                }
                Err(MultiWriteError::RequestFailed { source }) if has_ended(&source) => {
                    return Ok(Take::Outdated(None));
                }
                Err(error) => refused("acquire a lock", error)?,
            };
            form = match (at, error, form) {
                (0 | 1, Error::NoNode, _) | (2, Error::NoNode, Form::Fresh) => {
                    return Ok(Take::Outdated(None));
                }
                (0, ..) => {
                    self.forget_offset();
                    form
                }
                (1, ..) => return Ok(Take::Outdated(self.read_marker(&client, session).await?)),
                (2, Error::NoNode, Form::Known) => Form::Fresh,
                (3, Error::NodeExists, Form::Known) => match self.own(&client, session, request).await? {
                    Some(version) => Form::Again(version),
                    None => return Ok(Take::Busy),
                },
                // The node of the grant was deleted by hand. The lock is that of nobody until its owner is deleted as well.
                (3, Error::NoNode, Form::Again(_)) => return Ok(Take::Busy),
                (4, Error::NodeExists, Form::Known) => {
                    // Somebody has deleted the owner of an earlier attempt by hand.
                    let grant = self.connection.grant(&request.name, request.lease);
                    drop(client.delete(&grant, None).await);
                    Form::Known
                }
                _ => Form::Known,
            };
        }
        let message = "others change the lock again and again: try again";
        Err(BackendError::new(BackendErrorKind::Unavailable, Applied::Unknown, message))
    }

    async fn raise_tokens(&self, floor: FencingToken) -> Result<(), BackendError> {
        self.raise_offset(&self.connection.client().await?, floor.as_i64()).await
    }

    async fn read(&self, name: &LockName) -> Result<Option<Stored<Grant>>, BackendError> {
        let (lock, owner) = (self.connection.lock(name), self.connection.owner(name));
        let client = self.connection.client().await?;
        // The owner first: one that is gone was not replaced before the lock was read.
        let (synced, owner, lock) =
            tokio::join!(client.sync(&lock), client.get_data(&owner), client.get_data(&lock));
        let read = synced.and(owner).and_then(|owner| Ok((owner, lock?)));
        match read {
            Ok(((depth, _), (lease, stat))) => {
                let lease = String::from_utf8_lossy(&lease).into_owned();
                let grant = Grant { version: stat.version, lease: LeaseId::parse(&lease), session: None };
                let depth =
                    std::str::from_utf8(&depth).ok().and_then(|depth| depth.parse().ok()).unwrap_or(1);
                Ok(Some(Stored { lease, depth, grant }))
            }
            Err(Error::NoNode) => Ok(None),
            Err(error) => Err(failed("read a lock", error)),
        }
    }

    async fn delete(&self, name: &LockName, grant: Grant) -> Result<bool, BackendError> {
        let client = self.connection.client().await?;
        if grant.session.is_some_and(|session| session != client.session_id().0) {
            return Ok(false);
        }
        let mut has_last_version = grant.version > LAST_VERSION;
        loop {
            let multi = self.release(&client, name, grant, has_last_version);
            let mut multi = multi.map_err(|error| failed("release a lock", error))?;
            match multi.commit().await.map_err(|error| refused("release a lock", error)) {
                Ok(_) => return Ok(true),
                // Another grant's node is in it.
                Err(Ok((_, Error::NotEmpty))) => has_last_version = false,
                // The owner was deleted by hand.
                Err(Ok((1, Error::NoNode))) if grant.session.is_some() => {
                    if let Some(lease) = grant.lease {
                        drop(client.delete(&self.connection.grant(name, lease), None).await);
                    }
                    return Ok(false);
                }
                Err(refused) => return refused.map(|_| false),
            }
        }
    }

    async fn set_depth(
        &self,
        session: &Session,
        lock: &OwnLock<Grant>,
        depth: u32,
    ) -> Result<bool, BackendError> {
        let Some(client) = self.client_of(session).await? else { return Ok(false) };
        if lock.grant.session != Some(session.id) {
            return Ok(false);
        }
        let mut multi = client.new_multi_writer();
        let owner = self.connection.owner(&lock.name);
        let added = self
            .check_grant(&mut multi, lock)
            .and_then(|()| multi.add_set_data(&owner, depth.to_string().as_bytes(), None));
        added.map_err(|error| failed("change the depth of a lock", error))?;
        match multi.commit().await {
            Ok(_) => Ok(true),
            Err(MultiWriteError::RequestFailed { source }) if has_ended(&source) => Ok(false),
            Err(error) => refused("change the depth of a lock", error).map(|_| false),
        }
    }

    async fn renew(
        &self,
        session: &Session,
        locks: &[OwnLock<Grant>],
    ) -> Result<Option<Vec<bool>>, BackendError> {
        let mut there = Vec::with_capacity(locks.len());
        for locks in locks.chunks(AT_ONCE) {
            match self.are_there(session, locks).await? {
                None => return Ok(None),
                Some(true) => there.extend(locks.iter().map(|_| true)),
                Some(false) => {
                    let alone = locks.chunks(1).map(|lock| self.are_there(session, lock));
                    for answer in join_all(alone).await {
                        let Some(is_there) = answer? else { return Ok(None) };
                        there.push(is_there);
                    }
                }
            }
        }
        Ok(Some(there))
    }

    async fn write_card(&self, _: &Session, process: ProcessId, card: String) -> Result<(), BackendError> {
        self.put_card(process, card.as_bytes()).await
    }

    async fn remove_card(&self, process: ProcessId) -> Result<(), BackendError> {
        self.delete_card(process).await
    }

    async fn read_card(&self, process: ProcessId) -> Result<Option<Vec<u8>>, BackendError> {
        self.get_card(process).await
    }

    async fn names(&self, prefix: &str, limit: usize) -> Result<Vec<String>, BackendError> {
        self.held_names(prefix, limit).await
    }
}

impl Server {
    /// Takes a lock in one form, and returns the new state of its node. The first operation checks the offset of tokens, the
    /// second one the marker.
    async fn acquire(
        &self,
        client: &Client,
        session: &Session,
        request: &AcquireRequest,
        offset_version: i32,
        form: Form,
    ) -> Result<zookeeper_client::Stat, MultiWriteError> {
        let connection = &self.connection;
        let (lock, owner) = (connection.lock(&request.name), connection.owner(&request.name));
        let (grant, lease) = (connection.grant(&request.name, request.lease), request.lease.to_string());
        let marker = i32::try_from(session.marker).unwrap_or(i32::MAX);
        let mut multi = client.new_multi_writer();
        multi.add_check_version(&connection.place.root, offset_version)?;
        multi.add_check_version(&connection.marker(session.id), marker)?;
        let own = |multi: &mut MultiWriter<'_>| {
            let ephemeral = connection.options(CreateMode::Ephemeral);
            multi
                .add_create(&owner, b"1", &ephemeral)
                .and_then(|()| multi.add_create(&grant, b"", &ephemeral))
        };
        match form {
            Form::Known => {
                multi.add_set_data(&lock, lease.as_bytes(), None)?;
                own(&mut multi)?;
            }
            Form::Fresh => {
                // The server deletes it some time after its last owner.
                multi.add_create(&lock, b"", &connection.options(CreateMode::Container))?;
                multi.add_set_data(&lock, lease.as_bytes(), None)?;
                own(&mut multi)?;
            }
            Form::Again(version) => {
                multi.add_check_version(&owner, ANY)?;
                multi.add_check_version(&grant, ANY)?;
                multi.add_set_data(&lock, lease.as_bytes(), Some(version))?;
            }
        }
        let results = multi.commit().await?;
        let stat = results.iter().find_map(|result| match result {
            MultiWriteResult::SetData { stat } => Some(*stat),
            _ => None,
        });
        stat.ok_or_else(|| MultiWriteError::from(Error::UnexpectedError("no state of the node".to_owned())))
    }

    /// Returns the transaction that deletes the owner of a grant and the node of the grant, and with its last version the lock's.
    fn release<'c>(
        &self,
        client: &'c Client,
        name: &LockName,
        grant: Grant,
        has_last_version: bool,
    ) -> Result<MultiWriter<'c>, Error> {
        let (lock, mut multi) = (self.connection.lock(name), client.new_multi_writer());
        multi.add_check_version(&lock, grant.version)?;
        multi.add_delete(&self.connection.owner(name), None)?;
        if let Some(lease) = grant.lease {
            multi.add_delete(&self.connection.grant(name, lease), None)?;
        }
        if has_last_version {
            multi.add_delete(&lock, None)?;
        }
        Ok(multi)
    }

    /// Adds that a lock of this process is still that of its grant.
    fn check_grant(&self, multi: &mut MultiWriter<'_>, lock: &OwnLock<Grant>) -> Result<(), Error> {
        multi.add_check_version(&self.connection.lock(&lock.name), lock.grant.version)?;
        multi.add_check_version(&self.connection.grant(&lock.name, lock.lease), ANY)
    }

    /// Returns the version of the grant if this session has the lock for the lease.
    async fn own(
        &self,
        client: &Client,
        session: &Session,
        request: &AcquireRequest,
    ) -> Result<Option<i32>, BackendError> {
        let connection = &self.connection;
        let (lock, owner) = (connection.lock(&request.name), connection.owner(&request.name));
        let (owner, lock) = tokio::join!(client.check_stat(&owner), client.get_data(&lock));
        let (owner, (lease, stat)) = match owner.and_then(|owner| Ok((owner, lock?))) {
            Ok(read) => read,
            Err(Error::NoNode) => return Ok(None),
            Err(error) => return Err(failed("acquire a lock", error)),
        };
        let is_own = lease == request.lease.to_string().as_bytes()
            && owner.is_some_and(|owner| owner.ephemeral_owner == session.id);
        Ok(is_own.then_some(stat.version))
    }

    /// Returns `true` if all of these locks are still those of their grants, as a majority of the servers says: a read would be
    /// answered by a server that is cut off. Returns `None` if the session has ended.
    async fn are_there(
        &self,
        session: &Session,
        locks: &[OwnLock<Grant>],
    ) -> Result<Option<bool>, BackendError> {
        let Some(client) = self.client_of(session).await? else { return Ok(None) };
        if locks.iter().any(|lock| lock.grant.session != Some(session.id)) {
            return Ok(Some(false));
        }
        let mut multi = client.new_multi_writer();
        for lock in locks {
            let owner = self.connection.owner(&lock.name);
            let added =
                self.check_grant(&mut multi, lock).and_then(|()| multi.add_check_version(&owner, ANY));
            added.map_err(|error| failed("renew locks", error))?;
        }
        match multi.commit().await {
            Ok(_) => Ok(Some(true)),
            Err(MultiWriteError::RequestFailed { source }) if has_ended(&source) => Ok(None),
            Err(error) => refused("renew locks", error).map(|_| Some(false)),
        }
    }
}

fn reserve(request: &AcquireRequest) -> u32 {
    match request.mode {
        AcquireMode::New { reserve, .. } => reserve,
        AcquireMode::Reenter { .. } | AcquireMode::Permit(_) => 0,
    }
}
