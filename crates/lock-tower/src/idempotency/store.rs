//! The trait for stores, which keep a key's record from its first attempt to its response, and the store in memory.

use super::{attempt::Attempt, request::Fingerprint};
use crate::reject::BoxError;
use async_trait::async_trait;
use bytes::Bytes;
use http::Response;
use lock_core::{__private::lock, FencingToken, LockName};
use std::{
    collections::HashMap,
    fmt::{self, Debug},
    sync::{Arc, Mutex},
    time::SystemTime,
};

/// A store for the records of idempotency keys.
///
/// Each method is one atomic step. A record belongs to the latest attempt, identified by its
/// fencing token. An attempt with an older token can neither complete nor remove it. A store shared
/// by several servers must outlive each of them.
///
/// Names include the factory's [prefix](lock_core::LockFactoryBuilder::prefix). Applications that
/// share a record store each need their own prefix, even if each has its own Redis. Otherwise, they
/// receive each other's responses.
///
/// # Cancel safety
/// A dropped call may or may not have been executed. The layer drops calls whose lock is lost.
#[async_trait]
pub trait IdempotencyStore: Debug + Send + Sync + 'static {
    /// Begins an attempt, unless the record contains a response.
    ///
    /// | record with this name | result |
    /// | --- | --- |
    /// | none, or expired at `now` | [`Begun::Started`] as attempt 1 |
    /// | has another fingerprint | [`Begun::Mismatch`] |
    /// | contains a response | [`Begun::Answered`] |
    /// | belongs to an attempt with an older token | [`Begun::Started`] with the next number |
    /// | belongs to an attempt with the same or a newer token | [`Begun::Superseded`] |
    ///
    /// # Errors
    /// [`StoreError::Full`] if there is no room for a new record; [`StoreError::Failed`] if the store does not respond
    /// or returns an error.
    async fn begin(&self, request: &BeginRequest) -> Result<Begun, StoreError>;

    /// Stores the response of an attempt.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] if the record already has a response, was removed, or belongs to another attempt;
    /// [`StoreError::Failed`] if the store does not respond or returns an error.
    async fn complete(&self, attempt: &Attempt, answer: &Response<Bytes>) -> Result<(), StoreError>;

    /// Removes the record of an attempt that did no work. A record that contains a response or
    /// belongs to another attempt is kept.
    ///
    /// # Errors
    /// [`StoreError::Failed`] if the store does not respond or returns an error.
    async fn abandon(&self, attempt: &Attempt) -> Result<(), StoreError>;
}

#[async_trait]
impl<T: IdempotencyStore + ?Sized> IdempotencyStore for Arc<T> {
    async fn begin(&self, request: &BeginRequest) -> Result<Begun, StoreError> {
        (**self).begin(request).await
    }

    async fn complete(&self, attempt: &Attempt, answer: &Response<Bytes>) -> Result<(), StoreError> {
        (**self).complete(attempt, answer).await
    }

    async fn abandon(&self, attempt: &Attempt) -> Result<(), StoreError> {
        (**self).abandon(attempt).await
    }
}

/// An attempt that is about to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BeginRequest {
    /// The name of the record, which is the lock's name in its store. It contains the factory's
    /// prefix, the scope and the client's key.
    pub name: LockName,
    /// The fencing token of the lock.
    pub token: FencingToken,
    /// The fingerprint of the request.
    pub fingerprint: Fingerprint,
    /// The current time.
    pub now: SystemTime,
    /// The time at which the record expires. Stores may round it to seconds.
    pub expires_at: SystemTime,
}

/// The result of [`IdempotencyStore::begin`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Begun {
    /// The attempt began, and owns the record.
    Started {
        /// The number of this attempt, starting at 1. If it is above 1, an earlier attempt ended without a response.
        number: u32,
    },
    /// The record contains a response.
    Answered(Response<Bytes>),
    /// The key was used for another request.
    Mismatch,
    /// An attempt with the same or a newer token owns the record.
    Superseded,
}

/// An error returned by an idempotency store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store is full.
    #[error("the idempotency store is full: raise its capacity, or shorten the retention period")]
    Full,
    /// The record was removed, belongs to another attempt, or already has a response. Nothing was stored.
    #[error("the attempt no longer owns its idempotency record: roll back the work")]
    Superseded,
    /// The store did not respond, or returned an error.
    #[error("the request to the idempotency store failed")]
    Failed(#[source] BoxError),
}

impl StoreError {
    /// Creates an error for a failed request to the store.
    pub fn failed(cause: impl Into<BoxError>) -> Self {
        Self::Failed(cause.into())
    }
}

const DEFAULT_CAPACITY: usize = 10_000;

/// A store with records in memory. They are lost when the process ends. A retry to another server,
/// or after a restart, is executed again.
///
/// The store keeps 10,000 records by default. When it is full, it removes expired records. If there
/// are none, requests with new keys are rejected with 503. Keys are never removed before they
/// expire. The limit counts records, not bytes: with the default
/// [`max_answer`](super::IdempotencyLayer::max_answer), a full store can use 10 GiB.
#[derive(Clone)]
pub struct MemoryIdempotencyStore {
    records: Arc<Mutex<HashMap<LockName, Record>>>,
    capacity: usize,
}

struct Record {
    fingerprint: Fingerprint,
    token: FencingToken,
    number: u32,
    expires_at: SystemTime,
    answer: Option<Response<Bytes>>,
}

impl MemoryIdempotencyStore {
    /// Creates an empty store for 10,000 records.
    #[must_use]
    pub fn new() -> Self {
        Self { records: Arc::default(), capacity: DEFAULT_CAPACITY }
    }

    /// Sets the maximum number of records.
    #[must_use]
    pub fn capacity(self, records: usize) -> Self {
        Self { capacity: records, ..self }
    }
}

#[async_trait]
impl IdempotencyStore for MemoryIdempotencyStore {
    async fn begin(&self, request: &BeginRequest) -> Result<Begun, StoreError> {
        let mut records = lock(&self.records);
        let mut number = 1;
        match records.get(&request.name).filter(|record| record.expires_at > request.now) {
            Some(record) if record.fingerprint != request.fingerprint => return Ok(Begun::Mismatch),
            Some(Record { answer: Some(answer), .. }) => return Ok(Begun::Answered(answer.clone())),
            Some(record) if record.token >= request.token => return Ok(Begun::Superseded),
            Some(record) => number = record.number.saturating_add(1),
            None => {
                records.remove(&request.name);
                if records.len() >= self.capacity {
                    records.retain(|_, record| record.expires_at > request.now);
                }
                if records.len() >= self.capacity {
                    return Err(StoreError::Full);
                }
            }
        }
        let &BeginRequest { fingerprint, token, expires_at, .. } = request;
        records.insert(request.name.clone(), Record { fingerprint, token, number, expires_at, answer: None });
        Ok(Begun::Started { number })
    }

    async fn complete(&self, attempt: &Attempt, answer: &Response<Bytes>) -> Result<(), StoreError> {
        let mut records = lock(&self.records);
        let record = records.get_mut(attempt.name()).filter(|record| record.is_of(attempt));
        record.ok_or(StoreError::Superseded)?.answer = Some(answer.clone());
        Ok(())
    }

    async fn abandon(&self, attempt: &Attempt) -> Result<(), StoreError> {
        let mut records = lock(&self.records);
        if records.get(attempt.name()).is_some_and(|record| record.is_of(attempt)) {
            records.remove(attempt.name());
        }
        Ok(())
    }
}

impl Record {
    /// Returns `true` if this attempt may complete or remove the record.
    fn is_of(&self, attempt: &Attempt) -> bool {
        self.token == attempt.fencing_token() && self.answer.is_none()
    }
}

impl Default for MemoryIdempotencyStore {
    fn default() -> Self {
        Self::new()
    }
}

/// Formats the number of records, without keys and responses.
impl fmt::Debug for MemoryIdempotencyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let records = lock(&self.records).len();
        f.debug_struct("MemoryIdempotencyStore")
            .field("records", &records)
            .field("capacity", &self.capacity)
            .finish()
    }
}
