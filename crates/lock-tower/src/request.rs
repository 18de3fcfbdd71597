//! A request that needs a lock, from its arrival to the decision about it.

use crate::{
    config::{CallsHandler, Config, Mode},
    detach::{DetachedTasks, KeepLock, TaskSlot},
    handle::{Acquire, Held, RequestGuard},
    key::KeyError,
    observer::{IdempotencyOutcome, LayerEvent, Observers, elapsed},
    policy::WithoutLock,
    reject::{RejectReason, Rejection, RejectionBody},
};
use http::{Extensions, Method, Response, request::Parts};
use lock_core::{LockError, LockErrorKind, LostReason, names::LockNames};
use std::{fmt, sync::Arc};
use tokio::time::Instant;

/// The outcome of a request that does not acquire its lock.
pub(crate) enum Fallback {
    PassThrough(RejectReason),
    Reject(Response<RejectionBody>),
}

/// A request that needs a lock.
pub(crate) struct LockRequest {
    pub(crate) config: Arc<Config>,
    pub(crate) observers: Observers,
    /// `true` if the method is HEAD, so that no body will be sent.
    pub(crate) asks_for_head: bool,
    names: Option<LockNames>,
    arrived: Option<Instant>,
    /// Set while the request is counted as a waiter.
    is_waiting: bool,
    task_slot: Option<TaskSlot>,
    /// Set until the observers are notified of an outcome.
    undecided: bool,
}

/// Notifies the observers if the client disconnected before the outcome was known.
impl Drop for LockRequest {
    fn drop(&mut self) {
        self.leave();
    }
}

impl LockRequest {
    pub(crate) fn new(config: Arc<Config>, parts: &Parts) -> Self {
        let mut request = Self::unasked(config, parts);
        request.ask();
        request
    }

    /// Creates a request whose handler has not yet requested its lock.
    pub(crate) fn unasked(config: Arc<Config>, parts: &Parts) -> Self {
        let observers = config.observers(&parts.extensions);
        Self {
            config,
            observers,
            asks_for_head: parts.method == Method::HEAD,
            names: None,
            arrived: None,
            is_waiting: false,
            task_slot: None,
            undecided: false,
        }
    }

    /// Begins the wait. From now on, the observers are notified of the outcome.
    pub(crate) fn ask(&mut self) {
        (self.arrived, self.undecided) = (self.observers.now(), true);
    }

    /// Ends the wait, and reports it as cancelled if its outcome was not yet known.
    pub(crate) fn leave(&mut self) {
        self.leave_queue();
        if std::mem::take(&mut self.undecided) {
            let waited = elapsed(self.arrived);
            self.observers.notify(|route| LayerEvent::Cancelled { route, waited });
        }
    }

    /// Counts the request as a waiter for its key lookup or its lock.
    pub(crate) fn enter_queue(&mut self) -> Result<(), RejectReason> {
        if self.config.tasks().is_some_and(DetachedTasks::is_full) {
            return Err(RejectReason::TooManyDetached);
        }
        self.is_waiting = self.is_waiting || self.config.waiters.enter();
        if self.is_waiting { Ok(()) } else { Err(RejectReason::TooManyWaiters) }
    }

    fn leave_queue(&mut self) {
        if std::mem::take(&mut self.is_waiting) {
            self.config.waiters.leave();
        }
    }

    /// Starts to acquire the locks with these names.
    pub(crate) fn acquire(&mut self, names: LockNames) -> Result<Acquire, RejectReason> {
        self.observers.record_key(|| self.config.key_hash(&names));
        let entered = self.enter_queue();
        let names = self.names.insert(names);
        entered?;
        self.config.acquire(names)
    }

    /// Reserves a task for the handler, if the layer detaches handlers.
    fn take_task_slot(&mut self) -> Result<(), RejectReason> {
        if let Some(tasks) = self.config.tasks() {
            self.task_slot = Some(tasks.slot().ok_or(RejectReason::TooManyDetached)?);
        }
        Ok(())
    }

    /// Returns the share of the lock for the task of the handler, if the layer detaches handlers.
    pub(crate) fn keep_lock(&mut self, held: Option<&Arc<Held>>) -> Option<KeepLock> {
        let slot = self.task_slot.take()?;
        let tasks = self.config.tasks()?;
        Some(KeepLock {
            tasks: tasks.clone(),
            _slot: slot,
            held: held.cloned(),
            on_lost: self.config.on_lost(),
            release_on: self.config.release_on,
            asks_for_head: self.asks_for_head,
        })
    }

    /// Handles the result of the acquire, and notifies the observers if it succeeded.
    pub(crate) fn acquired(
        &mut self,
        guard: Result<RequestGuard, LockError>,
    ) -> Result<Arc<Held>, RejectReason> {
        let guard = guard.map_err(|error| RejectReason::of(error, self.config.wait))?;
        // If there are already too many tasks, the guard is dropped and the lock released.
        self.take_task_slot()?;
        self.leave_queue();
        self.undecided = false;
        if let Some(token) = guard.fencing_token() {
            self.observers.record_token(token);
        }
        let waited = elapsed(self.arrived);
        self.observers.notify(|route| LayerEvent::Acquired { route, waited });
        let observers = self.observers.clone();
        Ok(Arc::new(match self.config.calls_handler {
            CallsHandler::Immediately => Held::new(guard, observers),
            CallsHandler::AfterBegin => Held::before_work(guard, observers),
        }))
    }

    /// Decides how to proceed without the lock, and notifies the observers. The route in
    /// `extensions` is logged if the key is misconfigured.
    pub(crate) fn without_lock(&mut self, reason: RejectReason, extensions: Option<&Extensions>) -> Fallback {
        let (reason, disposition) = match self.disposition(&reason) {
            WithoutLock::Reject => (reason, WithoutLock::Reject),
            WithoutLock::PassThrough => match self.take_task_slot() {
                Ok(()) => (reason, WithoutLock::PassThrough),
                Err(full) => (full, WithoutLock::Reject),
            },
        };
        self.leave_queue();
        self.undecided = false;
        let waited = elapsed(self.arrived);
        self.observers.notify(|route| LayerEvent::NotAcquired {
            route,
            reason: &reason,
            waited,
            disposition,
        });
        self.log(&reason, disposition, extensions);
        match disposition {
            WithoutLock::PassThrough => Fallback::PassThrough(reason),
            WithoutLock::Reject => Fallback::Reject(self.reject(reason)),
        }
    }

    fn disposition(&self, reason: &RejectReason) -> WithoutLock {
        match reason {
            _ if self.config.mode == Mode::Shadow => WithoutLock::PassThrough,
            RejectReason::Unavailable(error) if error.kind() == LockErrorKind::Unavailable => {
                self.config.on_unavailable
            }
            RejectReason::Key(KeyError::Missing(_)) => self.config.on_bad_key,
            _ => WithoutLock::Reject,
        }
    }

    #[cold]
    pub(crate) fn reject(&self, reason: RejectReason) -> Response<RejectionBody> {
        let status = match reason {
            RejectReason::Timeout => self.config.timeout_status,
            _ => reason.status(),
        };
        let key = self.names.as_ref().map(|names| self.config.key_hash(names));
        self.config.answer(Rejection::new(reason, status, key, self.config.wait))
    }

    /// Returns the response to a request whose lock was lost, possibly before its handler was called.
    #[cold]
    pub(crate) fn lost(&self, reason: LostReason, before_work: bool) -> Response<RejectionBody> {
        if !before_work {
            return self.reject(RejectReason::Lost(reason));
        }
        let outcome = IdempotencyOutcome::Unavailable;
        self.observers.notify(|route| LayerEvent::Idempotency { route, outcome });
        self.reject(RejectReason::LostBeforeWork(reason))
    }

    /// Logs the reason, with bounds that do not contain the number of requests: a mistake once for its route, an
    /// outage once in ten seconds. Timeouts and full queues are normal under load.
    fn log(&self, reason: &RejectReason, disposition: WithoutLock, extensions: Option<&Extensions>) {
        let (outcome, disposition) = (reason.as_str(), disposition.as_str());
        let log = &self.config.log;
        match reason {
            RejectReason::Misconfigured(error) => {
                self.log_mistake("the options", &format_args!("{error:#}"), extensions);
            }
            RejectReason::Key(error @ KeyError::Misconfigured(_)) => {
                self.log_mistake("the key", error, extensions);
            }
            RejectReason::Key(KeyError::NoRoute) => {
                if log.mistakes.is_new("no route", None) {
                    tracing::warn!(
                        lock.outcome = outcome,
                        "a request matched no route: the layer around a router also covers its fallback, so put it on \
                         the methods, or add the fallback after it"
                    );
                }
            }
            RejectReason::Unavailable(error) => {
                let error = format_args!("{error:#}");
                match log.unavailable.due() {
                    Some(left_out) => {
                        tracing::warn!(lock.outcome = outcome, disposition, %error, left_out, "lock not acquired");
                    }
                    None => {
                        tracing::debug!(lock.outcome = outcome, disposition, %error, "lock not acquired")
                    }
                }
            }
            _ => tracing::debug!(lock.outcome = outcome, disposition, "lock not acquired"),
        }
    }

    fn log_mistake(&self, mistake: &str, error: &dyn fmt::Display, extensions: Option<&Extensions>) {
        let route = extensions.and_then(|extensions| self.config.route(extensions));
        let outcome = "misconfigured";
        if self.config.log.mistakes.is_new(mistake, route) {
            tracing::error!(lock.outcome = outcome, http.route = route, %error, "lock layer misconfigured");
        } else {
            tracing::debug!(lock.outcome = outcome, http.route = route, %error, "lock layer misconfigured");
        }
    }
}
