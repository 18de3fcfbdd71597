//! Locks of libraries: those of this workspace with default options, and `tokio::sync::Mutex`, which shows the cost of the
//! measurement itself and of a minimal fair lock in memory.

use super::{ByName, Lock, Locks};
use crate::Result;
use lock_core::{
    LockFactory, LockGuard, MemoryBackend,
    backend::Connector as _,
    observer::OtelObserver,
    permit::{FairLock, Permit, Pool, Semaphore},
};
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
use std::sync::Arc;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// Locks on Redis through fred.
pub(crate) struct Fred(LockFactory);

/// Locks on Redis through redis-rs.
pub(crate) struct RedisRs(LockFactory);

impl Locks for Fred {
    type Lock = lock_core::Lock;

    async fn connect(url: &str) -> Result<Self> {
        Ok(Self(LockFactory::new(lock_fred::RedisBackend::connect(url).await?)))
    }

    fn lock(&self, name: &str) -> Result<Self::Lock> {
        Ok(self.0.named(name)?)
    }
}

impl Locks for RedisRs {
    type Lock = lock_core::Lock;

    async fn connect(url: &str) -> Result<Self> {
        Ok(Self(LockFactory::new(lock_redis_rs::RedisBackend::connect(url).await?)))
    }

    fn lock(&self, name: &str) -> Result<Self::Lock> {
        Ok(self.0.named(name)?)
    }
}

/// Fair locks on Redis through fred.
pub(crate) struct Fair(LockFactory);

impl Locks for Fair {
    type Lock = FairLock;

    async fn connect(url: &str) -> Result<Self> {
        Ok(Self(LockFactory::new(lock_fred::RedisBackend::connect(url).await?)))
    }

    fn lock(&self, name: &str) -> Result<Self::Lock> {
        Ok(self.0.fair(name)?)
    }
}

/// One semaphore on Redis through fred, by whatever name it is asked for.
pub(crate) struct OneSemaphore(LockFactory);

impl Locks for OneSemaphore {
    type Lock = Semaphore;

    async fn connect(url: &str) -> Result<Self> {
        Ok(Self(LockFactory::new(lock_fred::RedisBackend::connect(url).await?)))
    }

    fn lock(&self, _: &str) -> Result<Self::Lock> {
        Ok(self.0.semaphore("shared", 16)?)
    }
}

impl<K: Send + 'static> Lock for Pool<K> {
    type Held = Permit<K>;

    async fn acquire(&self) -> Result<Permit<K>> {
        Ok(self.acquire().await?)
    }

    async fn release(&self, held: Permit<K>) -> Result<()> {
        match held.release().await?.was_held() {
            true => Ok(()),
            false => Err(format!("{} was lost before its release", self.name()).into()),
        }
    }
}

/// Locks on Redis through fred, observed by the OpenTelemetry SDK.
pub(crate) struct FredOtel {
    locks: LockFactory,
    /// Exports metrics every minute until it is dropped.
    _metrics: SdkMeterProvider,
}

impl Locks for FredOtel {
    type Lock = lock_core::Lock;

    async fn connect(url: &str) -> Result<Self> {
        let reader = PeriodicReader::builder(InMemoryMetricExporter::default()).build();
        let metrics = SdkMeterProvider::builder().with_reader(reader).build();
        let observer = OtelObserver::new(&metrics.meter("lock-bench"));
        let locks =
            LockFactory::builder(lock_fred::RedisBackend::connect(url).await?).observer(observer).build()?;
        Ok(Self { locks, _metrics: metrics })
    }

    fn lock(&self, name: &str) -> Result<Self::Lock> {
        Ok(self.locks.named(name)?)
    }
}

/// Locks on a quorum of five Redis servers through fred.
pub(crate) struct Quorum(LockFactory);

impl Locks for Quorum {
    type Lock = lock_core::Lock;

    async fn connect(url: &str) -> Result<Self> {
        // The servers are never restarted, so `durable` safely skips the quarantine of 30 s.
        Ok(Self(LockFactory::new(lock_fred::Redis.connect(&format!("{url}?durable=true")).await?)))
    }

    fn lock(&self, name: &str) -> Result<Self::Lock> {
        Ok(self.0.named(name)?)
    }
}

/// Locks in the memory of the process.
pub(crate) struct Memory(LockFactory);

impl Locks for Memory {
    type Lock = lock_core::Lock;

    async fn connect(_: &str) -> Result<Self> {
        Ok(Self(LockFactory::new(MemoryBackend::new())))
    }

    fn lock(&self, name: &str) -> Result<Self::Lock> {
        Ok(self.0.named(name)?)
    }
}

impl Lock for lock_core::Lock {
    type Held = LockGuard;

    async fn acquire(&self) -> Result<LockGuard> {
        Ok(self.acquire().await?)
    }

    async fn release(&self, held: LockGuard) -> Result<()> {
        match held.release().await?.was_held() {
            true => Ok(()),
            false => Err(format!("{} was lost before its release", self.name()).into()),
        }
    }

    fn token(held: &LockGuard) -> Option<u64> {
        Some(held.fencing_token().get())
    }
}

/// A lock in the memory of the process, without a lease.
#[derive(Default)]
pub(crate) struct TokioMutex(ByName<Mutex<()>>);

impl Locks for TokioMutex {
    type Lock = Arc<Mutex<()>>;

    async fn connect(_: &str) -> Result<Self> {
        Ok(Self::default())
    }

    fn lock(&self, name: &str) -> Result<Self::Lock> {
        Ok(self.0.get(name))
    }
}

impl Lock for Arc<Mutex<()>> {
    type Held = OwnedMutexGuard<()>;

    async fn acquire(&self) -> Result<Self::Held> {
        Ok(self.clone().lock_owned().await)
    }

    async fn release(&self, _held: Self::Held) -> Result<()> {
        Ok(())
    }
}
