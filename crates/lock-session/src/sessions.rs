//! The session of a process, and its marker, which tells late requests from others.
//!
//! Once the marker is written again, no acquire that was sent before can be executed any more. So an acquire whose outcome is
//! unknown is followed by a new marker before the next acquire, and before the answer to a release that finds nothing.

use crate::store::{Session, SessionStore};
use lock_core::{__private::lock, backend::BackendError};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
use tokio::sync::{RwLock, RwLockReadGuard};

/// The sessions of a store, one after the other.
#[derive(Debug)]
pub struct Sessions<S: SessionStore> {
    store: Arc<S>,
    now: Mutex<Option<Session<S::Detail>>>,
    /// Kept for reading by acquires, and for writing while a session begins or its marker is written.
    marker: RwLock<()>,
    /// The writes of the marker that were begun and have succeeded.
    marks: AtomicU64,
    /// An acquire has an unknown outcome, and no marker was written since.
    is_in_doubt: AtomicBool,
}

/// A session that is ready for an acquire.
pub(crate) struct Ready<'s, D> {
    pub(crate) session: Session<D>,
    _kept: RwLockReadGuard<'s, ()>,
}

impl<S: SessionStore> Sessions<S> {
    pub(crate) fn new(store: Arc<S>) -> Self {
        Self {
            store,
            now: Mutex::default(),
            marker: RwLock::default(),
            marks: AtomicU64::new(0),
            is_in_doubt: AtomicBool::new(false),
        }
    }

    /// Returns the session, if there is one.
    pub fn now(&self) -> Option<Session<S::Detail>> {
        lock(&self.now).clone()
    }

    /// Notes that a session has ended.
    pub fn ended(&self, id: i64) {
        if lock(&self.now).take_if(|session| session.id == id).is_some() {
            tracing::warn!(
                store = self.store.name(),
                "the session has ended: all holds of this store are lost"
            );
        }
    }

    /// Begins a new session in place of another one, unless that was done already.
    ///
    /// # Errors
    /// Those of [`SessionStore::begin`].
    ///
    /// # Cancel safety
    /// May be dropped and repeated.
    pub async fn replace(&self, old: i64) -> Result<(), BackendError> {
        let _writing = self.marker.write().await;
        if let Some(old) = self.now().filter(|session| session.id == old) {
            self.begin().await?;
            self.store.replaced(&old);
        }
        Ok(())
    }

    /// Begins a session, unless there is one. Its marker is newer than every acquire with an unknown outcome.
    pub(crate) async fn connected(&self) -> Result<Session<S::Detail>, BackendError> {
        self.ready().await.map(|ready| ready.session)
    }

    /// Returns a session whose marker is newer than every acquire with an unknown outcome, and is not written while the
    /// result is kept.
    pub(crate) async fn ready(&self) -> Result<Ready<'_, S::Detail>, BackendError> {
        loop {
            let kept = self.marker.read().await;
            match self.now() {
                Some(session) if !self.is_in_doubt.load(Ordering::Acquire) => {
                    return Ok(Ready { session, _kept: kept });
                }
                _ => drop(kept),
            }
            let writing = self.marker.write().await;
            match self.now() {
                Some(session) if self.is_in_doubt.swap(false, Ordering::AcqRel) => {
                    self.mark(&session).await?;
                }
                Some(_) => {}
                None => self.begin().await?,
            }
            drop(writing);
        }
    }

    /// Counts the markers so far, for [`mark_since`](Self::mark_since).
    pub(crate) fn marks(&self) -> u64 {
        self.marks.load(Ordering::Acquire)
    }

    /// Writes the marker, unless that was begun since the count of [`marks`](Self::marks).
    pub(crate) async fn mark_since(&self, count: u64) -> Result<(), BackendError> {
        let _writing = self.marker.write().await;
        match self.now() {
            Some(session) if self.marks() == count => self.mark(&session).await,
            // The marker of an ended session is gone.
            _ => Ok(()),
        }
    }

    async fn mark(&self, session: &Session<S::Detail>) -> Result<(), BackendError> {
        let doubt = Doubt(&self.is_in_doubt);
        match self.store.mark(session).await? {
            Some(version) => self.marked(session.id, version),
            None => self.ended(session.id),
        }
        self.marks.fetch_add(1, Ordering::AcqRel);
        doubt.settle();
        Ok(())
    }

    async fn begin(&self) -> Result<(), BackendError> {
        let session = self.store.begin().await?;
        self.is_in_doubt.store(false, Ordering::Release);
        *lock(&self.now) = Some(session);
        Ok(())
    }

    /// Notes the version of the marker.
    pub(crate) fn marked(&self, id: i64, version: i64) {
        if let Some(session) = &mut *lock(&self.now)
            && session.id == id
        {
            session.marker = session.marker.max(version);
        }
    }

    /// An acquire has an unknown outcome.
    pub(crate) fn doubts(&self) {
        self.is_in_doubt.store(true, Ordering::Release);
    }

    /// Begins an acquire. If its outcome stays unknown, the next one writes the marker first.
    pub(crate) fn doubt(&self) -> Doubt<'_> {
        Doubt(&self.is_in_doubt)
    }
}

/// An acquire whose outcome is not known yet.
pub(crate) struct Doubt<'s>(&'s AtomicBool);

impl Doubt<'_> {
    pub(crate) fn settle(self) {
        std::mem::forget(self);
    }
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
