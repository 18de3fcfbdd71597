//! The settings and limits shared by the clones of a layer.

use crate::{
    detach::DetachedTasks,
    handle::{Acquire, LockStatus, PermitStatus},
    key::KeyError,
    log::{LoggedMistakes, OutageLine},
    observer::{ObserverList, Observers},
    policy::{OnLost, ReleaseOn, WithoutLock},
    reject::{KeyHash, RejectReason, Rejection, RejectionBody, boxed, not_started},
};
use http::{Extensions, Method, Response, StatusCode, request::Parts};
use lock_core::{
    Lock, LockError, LockFactory, LockName, LockOptions, names::LockNames, permit::Semaphore, set::LockSet,
};
use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

const DEFAULT_WAIT: Duration = Duration::from_secs(1);
/// Longer than most handlers run, and short enough that a stalled client does not keep its lock for long.
const DEFAULT_MAX_HOLD: Duration = Duration::from_secs(30);
const DEFAULT_MAX_WAITERS: usize = 1_000;

type Filter = Arc<dyn Fn(&Parts) -> bool + Send + Sync>;
type OnReject = Arc<dyn Fn(Rejection) -> Response<RejectionBody> + Send + Sync>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Enforce,
    Shadow,
}

/// The moment at which a handler is called that has its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallsHandler {
    Immediately,
    /// After the record of its idempotency key was begun.
    #[cfg_attr(not(feature = "idempotency"), expect(dead_code))]
    AfterBegin,
}

/// The maximum duration of a hold, which overrides the one in the lock options.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MaxHold {
    Default,
    Set(Duration),
    /// The value from the lock options.
    FromOptions,
}

#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) locks: LockFactory,
    /// The number of permits of each key, if requests acquire permits instead of locks.
    pub(crate) limit: Option<u32>,
    pub(crate) options: Option<LockOptions>,
    pub(crate) max_hold: MaxHold,
    pub(crate) wait: Duration,
    pub(crate) methods: Option<Arc<[Method]>>,
    pub(crate) filters: Vec<Filter>,
    pub(crate) release_on: ReleaseOn,
    pub(crate) on_lost: OnLost,
    pub(crate) on_unavailable: WithoutLock,
    pub(crate) on_bad_key: WithoutLock,
    pub(crate) timeout_status: StatusCode,
    pub(crate) on_reject: OnReject,
    pub(crate) waiters: Waiters,
    pub(crate) mode: Mode,
    pub(crate) calls_handler: CallsHandler,
    pub(crate) route: Option<Arc<str>>,
    pub(crate) observers: ObserverList,
    pub(crate) tasks: Option<DetachedTasks>,
    pub(crate) log: Arc<LayerLog>,
    pub(crate) key_hash_secret: Option<[u8; 16]>,
    /// A lock with the layer's options, created by the first request. Checking the options for
    /// every request would dominate the cost.
    template: OnceLock<Lock>,
    /// The same for permits.
    semaphore: OnceLock<Semaphore>,
}

impl Config {
    pub(crate) fn new(locks: LockFactory) -> Self {
        Self {
            locks,
            limit: None,
            options: None,
            max_hold: MaxHold::Default,
            wait: DEFAULT_WAIT,
            methods: None,
            filters: Vec::new(),
            release_on: ReleaseOn::default(),
            on_lost: OnLost::default(),
            on_unavailable: WithoutLock::default(),
            on_bad_key: WithoutLock::default(),
            timeout_status: StatusCode::SERVICE_UNAVAILABLE,
            on_reject: Arc::new(|rejection| rejection.into_problem_response().map(boxed)),
            waiters: Waiters::new(DEFAULT_MAX_WAITERS),
            mode: Mode::Enforce,
            calls_handler: CallsHandler::Immediately,
            route: None,
            observers: None,
            tasks: None,
            log: Arc::default(),
            key_hash_secret: None,
            template: OnceLock::new(),
            semaphore: OnceLock::new(),
        }
    }

    /// Returns `true` if the request needs a lock.
    pub(crate) fn needs_lock(&self, request: &Parts) -> bool {
        self.methods.as_ref().is_none_or(|methods| covers(methods, &request.method))
            && self.filters.iter().all(|needs_lock| needs_lock(request))
    }

    pub(crate) fn on_lost(&self) -> OnLost {
        match self.mode {
            Mode::Enforce => self.on_lost,
            Mode::Shadow => OnLost::Signal,
        }
    }

    /// Returns the tasks for detached handlers, or `None` in shadow mode, which detaches none.
    pub(crate) fn tasks(&self) -> Option<&DetachedTasks> {
        self.tasks.as_ref().filter(|_| self.mode == Mode::Enforce)
    }

    /// Starts to acquire the locks with these names, or the permit with this name.
    pub(crate) fn acquire(&self, names: &LockNames) -> Result<Acquire, RejectReason> {
        let acquire = match (self.limit, names.single()) {
            (None, _) => self.acquire_locks(names),
            (Some(limit), Some(name)) => self.acquire_permit(name, limit),
            (Some(_), None) => {
                let error = "a permit has one name: use a `LockLayer` for a key of several names";
                return Err(RejectReason::Key(KeyError::misconfigured(error)));
            }
        };
        acquire.map_err(|error| RejectReason::of(error, self.wait))
    }

    fn acquire_permit(&self, name: &LockName, limit: u32) -> Result<Acquire, LockError> {
        let semaphore = match self.semaphore.get() {
            Some(semaphore) => semaphore,
            None => {
                let semaphore =
                    self.locks.semaphore(name.clone(), limit)?.with_options(self.lock_options())?;
                self.semaphore.get_or_init(|| semaphore)
            }
        };
        Ok(Acquire::Permit(Box::new(semaphore.acquire_named(name.clone(), self.wait)?)))
    }

    fn acquire_locks(&self, names: &LockNames) -> Result<Acquire, LockError> {
        if let Some(name) = names.single() {
            return Ok(Acquire::One(self.template(name)?.acquire_named(name.clone(), self.wait)));
        }
        let locks: Result<Vec<_>, _> = names
            .iter()
            .map(|name| Ok::<_, LockError>(self.template(name)?.with_name(name.clone())))
            .collect();
        Ok(Acquire::Set(Box::pin(LockSet::of(locks?)?.acquire_timeout(self.wait))))
    }

    /// Returns a lock with the layer's options, and creates it with this name if needed.
    fn template(&self, name: &LockName) -> Result<&Lock, LockError> {
        if let Some(template) = self.template.get() {
            return Ok(template);
        }
        let template = self.locks.named(name.clone())?.with_options(self.lock_options())?;
        Ok(self.template.get_or_init(|| template))
    }

    /// Leaves the outcome in the extensions of the request, for its handler.
    pub(crate) fn report(&self, status: LockStatus, extensions: &mut Extensions) {
        match self.limit {
            Some(_) => drop(extensions.insert(PermitStatus::of(status))),
            None => drop(extensions.insert(status)),
        }
    }

    /// Changes a setting, and discards the templates, which depend on the settings.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Self)) {
        change(self);
        (self.template, self.semaphore) = (OnceLock::new(), OnceLock::new());
    }

    /// Returns an error if the options, `max_hold` and the factory's limits conflict.
    pub(crate) fn check(&self) -> Result<(), LockError> {
        self.locks.check_options(&self.lock_options())
    }

    fn lock_options(&self) -> LockOptions {
        let options = self.options.unwrap_or_else(|| self.locks.options());
        match self.max_hold {
            // Keeps a stricter `max_hold`. A long operation timeout makes the default invalid.
            MaxHold::Default => {
                let chosen = options.chosen_max_hold();
                let limited =
                    options.max_hold(chosen.map_or(DEFAULT_MAX_HOLD, |set| set.min(DEFAULT_MAX_HOLD)));
                if limited.check().is_ok() { limited } else { options }
            }
            MaxHold::Set(most) => options.max_hold(most),
            MaxHold::FromOptions => options,
        }
    }

    /// Returns the response to a rejected request. If the rejection suggests a retry, the response is marked so that
    /// an outer idempotency layer does not store it.
    pub(crate) fn answer(&self, rejection: Rejection) -> Response<RejectionBody> {
        let suggests_retry = rejection.retry_after().is_some();
        // A caller has to tell a rejection from a response of the service that it calls.
        let reported = self.limit.map(|_| rejection.clone());
        let mut response = (self.on_reject)(rejection);
        if let Some(rejection) = reported {
            response.extensions_mut().insert(rejection);
        }
        if suggests_retry { not_started(response) } else { response }
    }

    pub(crate) fn key_hash(&self, names: &LockNames) -> KeyHash {
        KeyHash::of_names(self.key_hash_secret, names.as_slice())
    }

    /// Creates the observers of a request, with its route and a new span.
    pub(crate) fn observers(&self, extensions: &Extensions) -> Observers {
        Observers::new(self.observers.clone(), &|| self.route(extensions))
    }

    /// Returns the route set on the layer, or else axum's matched path.
    pub(crate) fn route<'a>(&'a self, extensions: &'a Extensions) -> Option<&'a str> {
        self.route.as_deref().or_else(|| matched_route(extensions))
    }
}

/// Returns `true` if the methods include the request's. GET covers HEAD, because axum and most
/// routers run the GET handler for it.
fn covers(methods: &[Method], asked: &Method) -> bool {
    methods.contains(asked) || (*asked == Method::HEAD && methods.contains(&Method::GET))
}

#[cfg(feature = "axum")]
pub(crate) fn matched_route(extensions: &Extensions) -> Option<&str> {
    extensions.get::<axum::extract::MatchedPath>().map(axum::extract::MatchedPath::as_str)
}

#[cfg(not(feature = "axum"))]
pub(crate) fn matched_route(_: &Extensions) -> Option<&str> {
    None
}

/// The waiting requests of a layer, and their limit.
#[derive(Clone)]
pub(crate) struct Waiters {
    waiting: Arc<AtomicUsize>,
    limit: usize,
}

impl Waiters {
    pub(crate) fn new(limit: usize) -> Self {
        Self { waiting: Arc::default(), limit }
    }

    /// Counts a request, unless too many are already waiting. Returns `true` if it was counted.
    pub(crate) fn enter(&self) -> bool {
        let one_more = |waiting| (waiting < self.limit).then_some(waiting + 1);
        self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// Ends the wait of a counted request.
    pub(crate) fn leave(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The log lines of a layer.
#[derive(Debug, Default)]
pub(crate) struct LayerLog {
    pub(crate) mistakes: LoggedMistakes,
    pub(crate) unavailable: OutageLine,
}
