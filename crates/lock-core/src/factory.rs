//! Where locks come from: one factory per process, with one UUID.

#[cfg(doc)]
use crate::error::LockErrorKind;
use crate::{
    backend::{
        Applied, BackendError, BackendErrorKind, ForceReleaseRequest, ForceReleased, Inspected, Store,
        StoredHold,
    },
    clock::{BootClock, Clock},
    driver::{self, Handle, Parts, SHUTDOWN, ShutdownReport},
    error::LockError,
    ids::ProcessId,
    inspect::{ForceReleaseOutcome, Inspection},
    lock::Lock,
    machine::MachineConfig,
    name::{LockName, NameError},
    observer::{LockObserver, Observers},
    options::{Limits, LockOptions},
    owner::Owner,
    random::Random,
};
use std::{future::Future, sync::Arc, time::Duration};

/// The locks of this process: a store, a process id, a worker.
///
/// Make one per process and clone it: clones are the same factory. Two factories in one process exclude one
/// another, as two processes do.
///
/// No runtime is needed to make one, so it may be a `static`. Its worker, the task that renews and releases, is
/// started by the first acquire, in the tokio runtime of that acquire; a factory that is used from several runtimes
/// has one in each.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
/// use lock_core::{LockFactory, MemoryBackend};
///
/// let locks = LockFactory::new(MemoryBackend::new());
/// let guard = locks.named("stock:42")?.acquire().await?;
/// println!("held with token {}", guard.fencing_token());
/// guard.release().await?;
/// locks.shutdown().await;
/// # Ok(()) }
/// ```
///
/// # Dropping
/// When the last of factory, locks and guards is dropped, guards that were just dropped are still released in the
/// background, if the runtime lives; otherwise leases end by themselves. [`shutdown`](Self::shutdown) waits and
/// tells.
#[derive(Debug, Clone)]
pub struct LockFactory {
    handle: Arc<Handle>,
}

impl LockFactory {
    /// A factory with default options.
    #[must_use]
    pub fn new(store: impl Into<Store>) -> Self {
        Self::with_parts(LockFactoryBuilder::new(store.into()))
    }

    /// A factory with options; see [`LockFactoryBuilder`].
    pub fn builder(store: impl Into<Store>) -> LockFactoryBuilder {
        LockFactoryBuilder::new(store.into())
    }

    fn with_parts(b: LockFactoryBuilder) -> Self {
        let capabilities = b.store.backend.capabilities();
        let push = b.store.subscriptions.is_some();
        let config = MachineConfig {
            max_waiters: b.limits.waiters_per_name,
            push,
            lease_per_attempt: capabilities.lease_per_attempt,
            ..MachineConfig::default()
        };
        let limits = match capabilities.max_lease {
            Some(most) => b.limits.max_lease(most.min(b.limits.max_lease)),
            None => b.limits,
        };
        let observers = Observers::new(b.observers, capabilities.name);
        let process = b.process.unwrap_or_else(ProcessId::random);
        let has_backstop = b.clock.is_none();
        let clock = b.clock.unwrap_or_else(|| Arc::new(BootClock::new()));
        let (store, options, random) = (b.store, b.options, b.random);
        let parts = Parts { process, store, clock, options, limits, observers, config, random, has_backstop };
        Self { handle: driver::start(parts) }
    }

    /// The lock of that name, without any IO.
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidName`] with a [`NameError`] that says which rule is broken; [`LockErrorKind::InvalidOptions`]
    /// if the terms of a factory made by [`new`](Self::new) exceed what its backend accepts.
    pub fn named<N>(&self, name: N) -> Result<Lock, LockError>
    where
        N: TryInto<LockName>,
        NameError: From<N::Error>,
    {
        Lock::new(self.handle.clone(), parse(name)?)
    }

    /// Returns the options of locks that do not choose their own.
    #[doc(hidden)]
    pub fn options(&self) -> LockOptions {
        self.handle.options
    }

    /// Checks that locks of this factory accept these options, for libraries that take options before they know a name.
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidOptions`] if the options do not fit together or exceed the limits.
    #[doc(hidden)]
    pub fn check_options(&self, options: &LockOptions) -> Result<(), LockError> {
        self.handle.terms(options)?;
        Ok(())
    }

    /// Whether [`acquire_timeout`](Lock::acquire_timeout) may be asked to wait so long: for those who set a wait up before
    /// they use it.
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidOptions`] above [`Limits::max_wait`].
    #[doc(hidden)]
    pub fn check_wait(&self, wait: Duration) -> Result<(), LockError> {
        Ok(self.handle.limits.check_wait(wait)?)
    }

    /// A fresh owner, for re-entry; see [`Owner`].
    #[must_use]
    pub fn owner(&self) -> Owner {
        Owner::new(self.handle.process, self.handle.fresh_owner())
    }

    /// The UUID by which stores tell this process from others.
    #[must_use]
    pub fn process_id(&self) -> ProcessId {
        self.handle.process
    }

    /// The clock that leases are measured with.
    #[doc(hidden)]
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.handle.clock
    }

    /// Returns the holder of a name in the store, and the holder and the waiters in this process.
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidName`]; [`LockErrorKind::Unavailable`] or [`LockErrorKind::Backend`] if the store fails, or does
    /// not answer within the operation timeout.
    ///
    /// # Cancel safety
    /// Cancel safe: it changes nothing.
    pub async fn inspect<N>(&self, name: N) -> Result<Inspection, LockError>
    where
        N: TryInto<LockName>,
        NameError: From<N::Error>,
    {
        let name = parse(name)?;
        let stored = match self.stored(&name).await? {
            Inspected::Held(stored) => Some(stored),
            Inspected::Free => None,
        };
        Ok(Inspection { stored, local: self.handle.local_view(&name) })
    }

    /// Frees a lock by force: looks up the holder, and frees the lock if that one still holds it. The holder
    /// learns of it by its next renewal, at the latest at its deadline; its late writes are stopped by the
    /// fencing token alone.
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidName`]; [`LockErrorKind::Unavailable`] or [`LockErrorKind::Backend`] if the store fails; it may
    /// then have been freed.
    ///
    /// # Cancel safety
    /// A dropped call may or may not have freed the lock; repeating it frees no later holder unseen.
    pub async fn force_release<N>(&self, name: N) -> Result<ForceReleaseOutcome, LockError>
    where
        N: TryInto<LockName>,
        NameError: From<N::Error>,
    {
        let name = parse(name)?;
        let Inspected::Held(StoredHold { lease, .. }) = self.stored(&name).await? else {
            return Ok(ForceReleaseOutcome::NotHeld);
        };
        let request = ForceReleaseRequest { name: name.clone(), seen: lease.clone() };
        let freed = self.in_time(&name, Applied::Unknown, self.handle.backend.force_release(request));
        let reply = freed.await?;
        // If it was ours, the holder is told at once instead of at its next renewal.
        self.handle.suspect(&name);
        Ok(match reply.outcome {
            ForceReleased::Released => ForceReleaseOutcome::Released { lease },
            ForceReleased::HolderChanged => ForceReleaseOutcome::HolderChanged,
        })
    }

    async fn stored(&self, name: &LockName) -> Result<Inspected, LockError> {
        let inspected = self.in_time(name, Applied::No, self.handle.backend.inspect(name.clone()));
        inspected.await.map(|reply| reply.outcome)
    }

    /// `overdue` says what is known of a call that is not answered in time.
    async fn in_time<T>(
        &self,
        name: &LockName,
        overdue: Applied,
        call: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, LockError> {
        let timeout = self.handle.terms(&self.handle.options)?.operation_timeout;
        self.handle.needs_runtime()?;
        match tokio::time::timeout(timeout, call).await {
            Ok(answer) => answer.map_err(|e| LockError::from(e).of(name)),
            Err(_) => {
                let message = format!("the store did not answer within {timeout:?}");
                let error = BackendError::new(BackendErrorKind::Timeout, overdue, message);
                Err(LockError::from(error).of(name))
            }
        }
    }

    /// How many names this process holds or waits for; zero when nothing is left of past work.
    #[must_use]
    pub fn active_locks(&self) -> usize {
        self.handle.active_locks()
    }

    /// Shuts the factory down, within 10 s; see [`shutdown_within`](Self::shutdown_within).
    ///
    /// # Cancel safety
    /// A dropped call goes on in the background; calling again waits for the rest.
    pub async fn shutdown(&self) -> ShutdownReport {
        self.shutdown_within(SHUTDOWN).await
    }

    /// Shuts the factory down: waiters fail with [`LockErrorKind::ShutDown`], holds end as
    /// [`LostReason::ShutDown`](crate::LostReason::ShutDown) and are released in the store. It completes as soon as the
    /// store has confirmed every release, and after `within` at the latest; the report names the locks whose release was
    /// not confirmed by then. Their leases end by themselves.
    ///
    /// Outside of a tokio runtime it does not wait: the report names every lock that is not released yet.
    ///
    /// It does not wait for work under locks, which learns of it as of any loss. To drain, stop taking in work, await
    /// your tasks, then shut down.
    ///
    /// # Cancel safety
    /// A dropped call goes on in the background, as long as the runtime lives and at most for 10 s or `within`, whichever
    /// is longer; calling again waits for the rest.
    pub async fn shutdown_within(&self, within: Duration) -> ShutdownReport {
        self.handle.shut_down(within).await
    }
}

fn parse<N>(name: N) -> Result<LockName, LockError>
where
    N: TryInto<LockName>,
    NameError: From<N::Error>,
{
    Ok(name.try_into().map_err(NameError::from)?)
}

/// The options of a factory.
///
/// | option | default |
/// | --- | --- |
/// | [`options`](Self::options) | a lease of 30 s, kept alive; see [`LockOptions`] |
/// | [`limits`](Self::limits) | 10,000 waiters per name, 100,000 in all; see [`Limits`] |
/// | [`observer`](Self::observer) | none; `tracing` events are always emitted |
/// | [`clock`](Self::clock) | [`BootClock`] |
///
/// ```
/// use lock_core::{LockFactory, LockOptions, MemoryBackend};
/// use std::time::Duration;
///
/// let locks = LockFactory::builder(MemoryBackend::new())
///     .options(LockOptions::new().lease(Duration::from_secs(10)))
///     .build()?;
/// # Ok::<(), lock_core::LockError>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct LockFactoryBuilder {
    store: Store,
    options: LockOptions,
    limits: Limits,
    observers: Vec<Arc<dyn LockObserver>>,
    clock: Option<Arc<dyn Clock>>,
    process: Option<ProcessId>,
    random: Random,
}

impl LockFactoryBuilder {
    fn new(store: Store) -> Self {
        let (options, limits) = (LockOptions::new(), Limits::new());
        Self {
            store,
            options,
            limits,
            observers: Vec::new(),
            clock: None,
            process: None,
            random: Random::default(),
        }
    }

    /// The terms of locks that do not choose their own.
    pub fn options(mut self, options: LockOptions) -> Self {
        self.options = options;
        self
    }

    /// The bounds of this factory.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Adds an observer, for example `OtelObserver`.
    pub fn observer(mut self, observer: impl LockObserver) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// The clock that leases are measured with. Under tokio's paused time this must be a
    /// `TestClock` (feature `test-util`). With a clock of your own, leases are renewed by the runtime's timer alone; with the
    /// default, a thread of this process also renews them while a blocked thread keeps the runtime's timers from running.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// For simulations: this process id, and these numbers as lease ids and jitter, so that a run can be repeated.
    #[cfg(feature = "__internal")]
    #[doc(hidden)]
    pub fn repeatable(
        mut self,
        process: ProcessId,
        random: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        self.process = Some(process);
        self.random = Random::Given(Arc::new(random));
        self
    }

    /// Makes the factory, without any IO.
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidOptions`] if the options do not fit together or exceed the limits, or those of the
    /// backend.
    pub fn build(self) -> Result<LockFactory, LockError> {
        self.limits.check()?;
        self.limits.terms(&self.options)?;
        let factory = LockFactory::with_parts(self);
        factory.handle.terms(&factory.handle.options)?;
        Ok(factory)
    }
}
