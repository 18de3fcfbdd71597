//! The options of a lock factory, and its creation.

use crate::{
    backend::Store,
    clock::{BootClock, Clock},
    driver::{self, Parts, Place},
    error::LockError,
    factory::LockFactory,
    ids::{ProcessId, Random},
    inspect::CardOptions,
    machine::MachineConfig,
    name::Prefix,
    observer::{LockObserver, Observers},
    options::{Limits, LockOptions, OptionsError},
    worker::Worker,
};
#[cfg(doc)]
use crate::{error::LockErrorKind, name::LockName};
use std::sync::Arc;

impl LockFactory {
    /// Creates a factory with default options.
    ///
    /// ```
    /// use lock_core::{LockFactory, MemoryBackend};
    ///
    /// let locks = LockFactory::new(MemoryBackend::new());
    /// assert!(locks.named("stock:42").is_ok());
    /// ```
    #[must_use]
    pub fn new(store: impl Into<Store>) -> Self {
        Self::with_parts(LockFactoryBuilder::new(store.into()), None)
    }

    /// Returns a builder for a factory with other options; see [`LockFactoryBuilder`].
    ///
    /// ```
    /// use lock_core::{LockFactory, MemoryBackend};
    ///
    /// let locks = LockFactory::builder(MemoryBackend::new()).prefix("shop-prod").build()?;
    /// # Ok::<(), lock_core::LockError>(())
    /// ```
    pub fn builder(store: impl Into<Store>) -> LockFactoryBuilder {
        LockFactoryBuilder::new(store.into())
    }

    pub(crate) fn with_parts(b: LockFactoryBuilder, prefix: Option<Prefix>) -> Self {
        let capabilities = b.store.backend.capabilities();
        let push = b.store.subscriptions.is_some();
        let config = MachineConfig {
            max_waiters: u32::try_from(b.limits.waiters_per_name).unwrap_or(u32::MAX),
            push,
            lease_per_attempt: capabilities.lease_per_attempt,
            ..MachineConfig::default()
        };
        let limits = match capabilities.max_lease {
            Some(most) => b.limits.max_lease(most.min(b.limits.max_lease)),
            None => b.limits,
        };
        let process = b.process.unwrap_or_else(ProcessId::random);
        let place = match b.worker.or_else(|| b.store.worker.clone()) {
            Some(worker) => Place::Worker(worker),
            // Both are deterministic only in the runtime of the test.
            None if b.clock.is_some() || b.random.is_given() => Place::InUse,
            None => Place::Keeper,
        };
        let clock = b.clock.unwrap_or_else(|| Arc::new(BootClock::new()));
        let observers = Observers::new(b.observers, capabilities.name, clock.clone());
        let store = b.store;
        let card = store.directory.as_ref().and_then(|_| b.card.card(clock.wall()));
        // Options that nobody chose follow the store.
        let options = match capabilities.max_lease {
            Some(most) if b.options == LockOptions::new() && most < LockOptions::new().chosen_lease() => {
                b.options.lease(most)
            }
            _ => b.options,
        };
        let random = b.random;
        let parts =
            Parts { process, store, clock, options, limits, prefix, observers, config, random, place, card };
        Self::from_handle(driver::start(parts))
    }
}

/// A builder for a [`LockFactory`].
///
/// | option | default |
/// | --- | --- |
/// | [`options`](Self::options) | a lease of 30 s, renewed; see [`LockOptions`] |
/// | [`limits`](Self::limits) | 10,000 waiters per name, 100,000 in all; see [`Limits`] |
/// | [`observer`](Self::observer) | none; `tracing` events are always emitted |
/// | [`clock`](Self::clock) | [`BootClock`] |
/// | [`prefix`](Self::prefix) | none |
/// | [`worker`](Self::worker) | the store's worker, or else the keeper |
/// | [`program`](Self::program) | the name of the executable, without a version |
/// | [`without_card`](Self::without_card) | a card in the store, if the store keeps cards |
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
    prefix: Option<String>,
    worker: Option<Worker>,
    process: Option<ProcessId>,
    random: Random,
    card: CardOptions,
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
            prefix: None,
            worker: None,
            process: None,
            random: Random::default(),
            card: CardOptions::default(),
        }
    }

    /// Sets the default options for locks of this factory.
    pub fn options(mut self, options: LockOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the limits of this factory.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Adds an observer, for example `OtelObserver`.
    pub fn observer(mut self, observer: impl LockObserver) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// Sets the clock that measures leases. Under tokio's paused time this must be a `TestClock` (feature `test-util`).
    ///
    /// Without a [`worker`](Self::worker), a factory with its own clock works in the tokio runtime in which it is used,
    /// and in the next one after that has ended. Outside of a runtime, acquires fail with
    /// [`NoRuntime`](crate::LockErrorKind::NoRuntime).
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Sets a prefix for this factory's names in the store, for applications that share a store. With the
    /// prefix `shop-prod`, the lock `stock:42` is stored as `shop-prod:stock:42`. Errors, events and guards
    /// show the name without the prefix. Names under two prefixes are never the same lock. A factory without
    /// a prefix stores names unchanged, so its `shop-prod:stock:42` is that lock as well.
    ///
    /// A prefix consists of 1 to 64 characters from `A–Z a–z 0–9 - _ .`, is not `distlock`, and does not begin with
    /// `redisson_`. It counts towards [`LockName::MAX_BYTES`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// use lock_core::{LockFactory, MemoryBackend};
    ///
    /// let store = MemoryBackend::new();
    /// let production = LockFactory::builder(store.clone()).prefix("shop-prod").build()?;
    /// let staging = LockFactory::builder(store).prefix("shop-staging").build()?;
    ///
    /// let guard = production.named("stock:42")?.acquire().await?;
    /// assert_eq!(guard.name().as_str(), "stock:42");
    /// assert!(staging.named("stock:42")?.try_acquire().await?.is_some(), "another lock");
    /// # Ok(()) }
    /// ```
    pub fn prefix(mut self, word: impl Into<String>) -> Self {
        self.prefix = Some(word.into());
        self
    }

    /// Sets the [`Worker`] in which the factory renews leases, ends waits and sends releases. Without this call, it is
    /// the store's worker, if there is one, or else the keeper, a thread that all factories of the process share.
    pub fn worker(mut self, worker: Worker) -> Self {
        self.worker = Some(worker);
        self
    }

    /// Sets the program name and version on this process's [card](crate::inspect::ProcessCard), usually
    /// `.program(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))`. Each is truncated to 200 characters.
    pub fn program(mut self, name: impl AsRef<str>, version: impl AsRef<str>) -> Self {
        self.card.program(name.as_ref(), version.as_ref());
        self
    }

    /// Disables this process's card. [`inspect`](LockFactory::inspect) calls in other processes will then no longer
    /// show which process holds a lock. Nothing else changes.
    ///
    /// When the card is enabled, the store holds this process's host, process id, program and version (in Redis, for
    /// example, under `distlock:process:<process id>`). The card is written in the background, half a second after the
    /// first acquire, and renewed every 20 s. It is removed by [`shutdown`](LockFactory::shutdown), or else expires
    /// within 60 s of the process ending. If the store rejects the card, one warning is logged and no card is written.
    pub fn without_card(mut self) -> Self {
        self.card.turn_off();
        self
    }

    /// Sets the process id and a source of lease ids and jitter, so that a simulation can be repeated.
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

    /// Creates the factory, without any IO.
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidOptions`] if the options contradict each other or exceed the factory's or the
    /// backend's limits, or if the prefix is invalid.
    pub fn build(mut self) -> Result<LockFactory, LockError> {
        self.limits.check()?;
        self.limits.terms(&self.options)?;
        let prefix = match self.prefix.take() {
            Some(prefix) => Some(Prefix::new(&prefix).ok_or_else(|| invalid_prefix(&prefix))?),
            None => None,
        };
        let factory = LockFactory::with_parts(self, prefix);
        factory.handle().terms(&factory.handle().options)?;
        Ok(factory)
    }
}

fn invalid_prefix(prefix: &str) -> OptionsError {
    OptionsError::new(format!(
        "`{}` is not a valid prefix: use 1 to 64 ASCII letters, digits, `-`, `_` or `.`, except `distlock` and words that \
         start with `redisson_`",
        prefix.escape_debug()
    ))
}
