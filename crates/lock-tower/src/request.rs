//! What becomes of one request that needs a lock.

use crate::{
    config::{Config, Mode, matched_route},
    detach::{DetachedTasks, Keep, Slot},
    handle::{Held, Unlocked},
    key::KeyErrorKind,
    observer::{Disposition, LayerEvent, Telling},
    policy::{OnBadKey, OnUnavailable},
    reject::{RejectReason, Rejection, RejectionBody},
};
use http::{Extensions, Method, Response, request::Parts};
use lock_core::{AcquireFuture, ErrorKind, LockError, LockName};
use std::sync::Arc;
use tokio::{sync::OwnedSemaphorePermit, time::Instant};

/// What a request gets instead of its lock.
pub(crate) enum Instead {
    GoOn(Unlocked),
    Answer(Response<RejectionBody>),
}

/// One request on its way to its lock.
pub(crate) struct Call {
    pub(crate) config: Arc<Config>,
    pub(crate) telling: Telling,
    pub(crate) method: Method,
    name: Option<LockName>,
    arrived: Instant,
    place: Option<OwnedSemaphorePermit>,
    slot: Option<Slot>,
    /// Nobody was told yet what became of it.
    open: bool,
}

/// A request that leaves before its turn is told of as well.
impl Drop for Call {
    fn drop(&mut self) {
        if self.open {
            self.telling.tell(&LayerEvent::Left { waited: self.arrived.elapsed() });
        }
    }
}

impl Call {
    pub(crate) fn new(config: Arc<Config>, parts: &Parts) -> Self {
        let telling = config.telling(&parts.extensions);
        let (method, arrived) = (parts.method.clone(), Instant::now());
        Self { config, telling, method, name: None, arrived, place: None, slot: None, open: true }
    }

    /// Begins to wait, for a name or for a lock.
    pub(crate) fn wait(&mut self) -> Result<(), RejectReason> {
        if self.config.tasks().is_some_and(DetachedTasks::is_full) {
            return Err(RejectReason::TooManyDetached);
        }
        if self.place.is_none() {
            self.place = Some(self.config.waiters.enter().ok_or(RejectReason::TooManyWaiters)?);
        }
        Ok(())
    }

    /// Begins to wait for the lock of that name.
    pub(crate) fn enter(&mut self, name: LockName) -> Result<AcquireFuture, RejectReason> {
        self.name = Some(name.clone());
        self.wait()?;
        self.config.acquire(name).map_err(|error| self.reason(error))
    }

    pub(crate) fn reason(&self, error: LockError) -> RejectReason {
        RejectReason::of(error, self.config.wait)
    }

    /// The handler is about to be called: it may have to be a task.
    pub(crate) fn take_slot(&mut self) -> Result<(), RejectReason> {
        if let Some(tasks) = self.config.tasks() {
            self.slot = Some(tasks.slot().ok_or(RejectReason::TooManyDetached)?);
        }
        Ok(())
    }

    /// What the service that makes a task of the handler is told, if there is to be one.
    pub(crate) fn keep(&mut self, held: Option<&Arc<Held>>) -> Option<Keep> {
        let slot = self.slot.take()?;
        let tasks = self.config.tasks()?;
        Some(Keep {
            tasks: tasks.clone(),
            _slot: Arc::new(slot),
            held: held.cloned(),
            on_lost: self.config.on_lost(),
            release_on: self.config.release_on,
            method: self.method.clone(),
        })
    }

    pub(crate) fn acquired(&mut self) {
        (self.place, self.open) = (None, false);
        self.telling.tell(&LayerEvent::Acquired { waited: self.arrived.elapsed() });
    }

    /// What becomes of a request without its lock.
    pub(crate) fn without_lock(&mut self, reason: RejectReason, extensions: &Extensions) -> Instead {
        let (reason, goes_on) = match self.goes_on(&reason).map(|unlocked| (unlocked, self.take_slot())) {
            Some((unlocked, Ok(()))) => (reason, Some(unlocked)),
            Some((_, Err(full))) => (full, None),
            None => (reason, None),
        };
        (self.place, self.open) = (None, false);
        let disposition = if goes_on.is_some() { Disposition::PassedThrough } else { Disposition::Rejected };
        self.telling.tell(&LayerEvent::NotAcquired {
            reason: &reason,
            waited: self.arrived.elapsed(),
            disposition,
        });
        self.log(&reason, disposition, extensions);
        match goes_on {
            Some(unlocked) => Instead::GoOn(unlocked),
            None => Instead::Answer(self.reject(reason)),
        }
    }

    fn goes_on(&self, reason: &RejectReason) -> Option<Unlocked> {
        match reason {
            _ if self.config.mode == Mode::Shadow => Some(Unlocked::Shadow(reason.clone())),
            RejectReason::Unavailable(error)
                if error.kind() == ErrorKind::Unavailable
                    && self.config.on_unavailable == OnUnavailable::Allow =>
            {
                Some(Unlocked::Unavailable)
            }
            RejectReason::Key(error)
                if error.kind() == KeyErrorKind::Missing && self.config.on_bad_key == OnBadKey::Allow =>
            {
                Some(Unlocked::NoKey)
            }
            _ => None,
        }
    }

    pub(crate) fn reject(&self, reason: RejectReason) -> Response<RejectionBody> {
        let status = match reason {
            RejectReason::Timeout => self.config.timeout_status,
            _ => reason.status(),
        };
        let key = self.name.as_ref().map(|name| self.config.key_hash(name));
        let rejection = Rejection::new(reason, status, key, self.config.wait);
        (self.config.on_reject)(rejection)
    }

    fn log(&self, reason: &RejectReason, disposition: Disposition, extensions: &Extensions) {
        let word = reason.as_str();
        match reason {
            RejectReason::Misconfigured(error) => {
                tracing::error!(lock.outcome = word, error = %format_args!("{error:#}"), "the lock layer cannot work")
            }
            RejectReason::Key(error) if error.kind() == KeyErrorKind::Misconfigured => {
                let route = matched_route(extensions).or_else(|| self.config.route.clone());
                if !error.is_of_template() || self.config.misfits.is_new(route.clone()) {
                    tracing::error!(lock.outcome = word, http.route = route.as_deref(), error = %error, "the lock layer cannot work");
                }
            }
            RejectReason::Unavailable(error) => {
                tracing::warn!(lock.outcome = word, disposition = ?disposition, error = %format_args!("{error:#}"), "no lock")
            }
            _ => tracing::debug!(lock.outcome = word, disposition = ?disposition, "no lock"),
        }
    }
}
