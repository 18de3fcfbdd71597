//! What the clones of a layer share, and what it decides for one request.

use super::{OnBadKey, OnLost, OnUnavailable, ReleaseOn};
use crate::{
    detach::{DetachedTasks, Keep, Slot},
    handle::{Degraded, Held},
    key::KeyErrorKind,
    observe::{Answer, LayerEvent, LayerObserver, Telling},
    reject::{KeyHash, Reason, Rejection, RejectionBody, Waited},
};
use http::{Extensions, Method, Request, Response, StatusCode, request::Parts};
use lock_core::{AcquireFuture, ErrorKind, Lock, LockError, LockFactory, LockName, LockOptions};
use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

const DEFAULT_WAIT: Duration = Duration::from_secs(1);
/// Longer than most handlers take, shorter than clients that stall.
const DEFAULT_MAX_HOLD: Duration = Duration::from_secs(30);
const DEFAULT_WAITERS: usize = 1_000;

type Filter = Arc<dyn Fn(&Parts) -> bool + Send + Sync>;
type OnReject = Arc<dyn Fn(Rejection) -> Response<RejectionBody> + Send + Sync>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Enforce,
    Shadow,
}

/// The longest hold; it replaces that of the options.
#[derive(Debug, Clone, Copy)]
pub(super) enum MaxHold {
    Default,
    Set(Duration),
    /// The options decide.
    Off,
}

#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) locks: LockFactory,
    pub(super) options: Option<LockOptions>,
    pub(super) max_hold: MaxHold,
    pub(super) wait: Duration,
    pub(super) methods: Option<Arc<[Method]>>,
    pub(super) filters: Vec<Filter>,
    pub(crate) release_on: ReleaseOn,
    pub(super) on_lost: OnLost,
    pub(super) on_unavailable: OnUnavailable,
    pub(super) on_bad_key: OnBadKey,
    pub(super) timeout_status: StatusCode,
    pub(super) on_reject: OnReject,
    pub(super) waiters: Waiters,
    pub(super) mode: Mode,
    pub(super) route: Option<Arc<str>>,
    pub(super) observers: Arc<[Arc<dyn LayerObserver>]>,
    pub(super) tasks: Option<DetachedTasks>,
    pub(super) misfits: Misfits,
    pub(super) key_hash_secret: Option<Arc<[u8]>>,
}

impl Config {
    pub(super) fn new(locks: LockFactory) -> Self {
        Self {
            locks,
            options: None,
            max_hold: MaxHold::Default,
            wait: DEFAULT_WAIT,
            methods: None,
            filters: Vec::new(),
            release_on: ReleaseOn::default(),
            on_lost: OnLost::default(),
            on_unavailable: OnUnavailable::default(),
            on_bad_key: OnBadKey::default(),
            timeout_status: StatusCode::SERVICE_UNAVAILABLE,
            on_reject: Arc::new(Rejection::into_response),
            waiters: Waiters::new(DEFAULT_WAITERS),
            mode: Mode::Enforce,
            route: None,
            observers: Arc::new([]),
            tasks: None,
            misfits: Misfits::default(),
            key_hash_secret: None,
        }
    }

    /// The request in its parts, if it needs a lock. One that does not is not touched.
    pub(crate) fn sort<B>(&self, request: Request<B>) -> Sorted<B> {
        if self.methods.as_ref().is_some_and(|methods| !covers(methods, request.method())) {
            return Sorted::Passes(request);
        }
        let (parts, body) = request.into_parts();
        match self.filters.iter().all(|needs_lock| needs_lock(&parts)) {
            true => Sorted::NeedsLock(parts, body),
            false => Sorted::Passes(Request::from_parts(parts, body)),
        }
    }

    pub(crate) fn on_lost(&self) -> OnLost {
        match self.mode {
            Mode::Enforce => self.on_lost,
            Mode::Shadow => OnLost::Signal,
        }
    }

    /// Where handlers outlive their clients. A shadow leaves them as they are without the layer.
    fn tasks(&self) -> Option<&DetachedTasks> {
        self.tasks.as_ref().filter(|_| self.mode == Mode::Enforce)
    }

    pub(crate) fn acquire(&self, name: LockName) -> Result<AcquireFuture, LockError> {
        Ok(self.lock(self.locks.named(name)?)?.acquire_timeout(self.wait))
    }

    /// Returns an error if the options, `max_hold` and the limits of the factory do not fit together.
    pub(super) fn check(&self) -> Result<(), LockError> {
        self.lock(self.locks.named("any")?).map(drop).map_err(LockError::without_name)
    }

    fn lock(&self, lock: Lock) -> Result<Lock, LockError> {
        let options = self.options.unwrap_or_else(|| lock.options());
        match self.max_hold {
            // A stricter choice stays. An operation timeout of that length does not fit the default.
            MaxHold::Default => {
                let most =
                    options.chosen_max_hold().map_or(DEFAULT_MAX_HOLD, |set| set.min(DEFAULT_MAX_HOLD));
                lock.with_options(options.max_hold(most)).or_else(|_| lock.with_options(options))
            }
            MaxHold::Set(most) => lock.with_options(options.max_hold(most)),
            MaxHold::Off => lock.with_options(options),
        }
    }

    fn key_hash(&self, name: &LockName) -> KeyHash {
        match &self.key_hash_secret {
            Some(secret) => KeyHash::with_secret(secret, name),
            None => KeyHash::of(name),
        }
    }

    /// The route costs an allocation, so it is looked up only if somebody wants to know.
    fn telling(&self, extensions: &Extensions) -> Telling {
        let route = if self.observers.is_empty() {
            None
        } else {
            self.route.clone().or_else(|| matched_route(extensions))
        };
        Telling { observers: self.observers.clone(), route }
    }
}

/// HEAD runs the handler of GET, in axum and most routers, and must not run it without the lock.
fn covers(methods: &[Method], asked: &Method) -> bool {
    methods.contains(asked) || (*asked == Method::HEAD && methods.contains(&Method::GET))
}

#[cfg(feature = "axum")]
fn matched_route(extensions: &Extensions) -> Option<Arc<str>> {
    extensions.get::<axum::extract::MatchedPath>().map(|path| path.as_str().into())
}

#[cfg(not(feature = "axum"))]
fn matched_route(_: &Extensions) -> Option<Arc<str>> {
    None
}

/// How many requests of a layer may wait at once.
#[derive(Clone)]
pub(super) struct Waiters(Arc<Semaphore>);

impl Waiters {
    pub(super) fn new(most: usize) -> Self {
        Self(Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))))
    }
}

/// The routes that the template of a layer does not fit. They are as many as the application has, and known once
/// they are logged.
#[derive(Clone, Default)]
pub(super) struct Misfits(Arc<Mutex<HashSet<Option<Arc<str>>>>>);

impl Misfits {
    fn is_new(&self, route: Option<Arc<str>>) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(route)
    }
}

/// Whether a request needs a lock.
pub(crate) enum Sorted<B> {
    NeedsLock(Parts, B),
    Passes(Request<B>),
}

/// What a request gets instead of its lock.
pub(crate) enum Instead {
    GoOn(Degraded),
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
    pub(crate) fn wait(&mut self) -> Result<(), Reason> {
        if self.config.tasks().is_some_and(DetachedTasks::is_full) {
            return Err(Reason::TooManyDetached);
        }
        if self.place.is_none() {
            let place = self.config.waiters.0.clone().try_acquire_owned();
            self.place = Some(place.map_err(|_| Reason::TooManyWaiters)?);
        }
        Ok(())
    }

    /// Begins to wait for the lock of that name.
    pub(crate) fn enter(&mut self, name: LockName) -> Result<AcquireFuture, Reason> {
        self.name = Some(name.clone());
        self.wait()?;
        self.config.acquire(name).map_err(|error| self.reason(error))
    }

    pub(crate) fn reason(&self, error: LockError) -> Reason {
        Reason::of(error, if self.config.wait.is_zero() { Waited::Never } else { Waited::InVain })
    }

    /// The handler is about to be called: it may have to be a task.
    pub(crate) fn take_slot(&mut self) -> Result<(), Reason> {
        if let Some(tasks) = self.config.tasks() {
            self.slot = Some(tasks.slot().ok_or(Reason::TooManyDetached)?);
        }
        Ok(())
    }

    /// What the service that makes a task of the handler is told, if there is to be one.
    pub(crate) fn keep(&mut self, held: Option<&Arc<Held>>) -> Option<Keep> {
        let slot = self.slot.take()?;
        let tasks = self.config.tasks()?;
        Some(Keep::new(tasks, slot, held.cloned(), &self.config, &self.method))
    }

    pub(crate) fn acquired(&mut self) {
        (self.place, self.open) = (None, false);
        self.telling.tell(&LayerEvent::Acquired { waited: self.arrived.elapsed() });
    }

    /// What becomes of a request without its lock.
    pub(crate) fn without_lock(&mut self, reason: Reason, extensions: &Extensions) -> Instead {
        let (reason, goes_on) = match self.goes_on(&reason).map(|degraded| (degraded, self.take_slot())) {
            Some((degraded, Ok(()))) => (reason, Some(degraded)),
            Some((_, Err(full))) => (full, None),
            None => (reason, None),
        };
        (self.place, self.open) = (None, false);
        let answer = if goes_on.is_some() { Answer::WentOn } else { Answer::Refused };
        self.telling.tell(&LayerEvent::NotAcquired {
            reason: &reason,
            waited: self.arrived.elapsed(),
            answer,
        });
        self.log(&reason, answer, extensions);
        match goes_on {
            Some(degraded) => Instead::GoOn(degraded),
            None => Instead::Answer(self.reject(reason)),
        }
    }

    fn goes_on(&self, reason: &Reason) -> Option<Degraded> {
        match reason {
            _ if self.config.mode == Mode::Shadow => Some(Degraded::Shadow(reason.clone())),
            Reason::Unavailable(error)
                if error.kind() == ErrorKind::Unavailable
                    && self.config.on_unavailable == OnUnavailable::Allow =>
            {
                Some(Degraded::Unavailable)
            }
            Reason::Key(error)
                if error.kind() == KeyErrorKind::Missing && self.config.on_bad_key == OnBadKey::Allow =>
            {
                Some(Degraded::NoKey)
            }
            _ => None,
        }
    }

    pub(crate) fn reject(&self, reason: Reason) -> Response<RejectionBody> {
        let status = match reason {
            Reason::WaitLimit => self.config.timeout_status,
            _ => reason.status(),
        };
        let key = self.name.as_ref().map(|name| self.config.key_hash(name));
        let rejection = Rejection::new(reason, status, key, self.config.wait);
        (self.config.on_reject)(rejection)
    }

    fn log(&self, reason: &Reason, answer: Answer, extensions: &Extensions) {
        let word = reason.as_str();
        match reason {
            Reason::Misconfigured(error) => {
                tracing::error!(lock.outcome = word, error = %format_args!("{error:#}"), "the lock layer cannot work")
            }
            Reason::Key(error) if error.kind() == KeyErrorKind::Wiring => {
                let route = matched_route(extensions).or_else(|| self.config.route.clone());
                if !error.is_of_template() || self.config.misfits.is_new(route.clone()) {
                    tracing::error!(lock.outcome = word, http.route = route.as_deref(), error = %error, "the lock layer cannot work");
                }
            }
            Reason::Unavailable(error) => {
                tracing::warn!(lock.outcome = word, answer = ?answer, error = %format_args!("{error:#}"), "no lock")
            }
            _ => tracing::debug!(lock.outcome = word, answer = ?answer, "no lock"),
        }
    }
}
