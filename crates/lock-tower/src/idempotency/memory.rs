//! Records in memory, for tests and single-process services.

use super::{
    attempt::Attempt,
    fingerprint::Fingerprint,
    store::{BeginRequest, Begun, IdempotencyStore, StoreError},
};
use async_trait::async_trait;
use bytes::Bytes;
use http::Response;
use lock_core::{__private::lock, FencingToken, LockName};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex},
    time::SystemTime,
};

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
