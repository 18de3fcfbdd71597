//! Permits: names that may be those of pools, tasks that take permits of any kind, and tasks that queue for a fair lock.

use super::Failure;
use crate::{
    line::{Order, Orders, Report},
    referee::{Part, Witness},
};
use lock_core::{
    Hold, Lock, LockError, LockFactory, LockGuard, LockName, ReleaseOutcome,
    backend::Share,
    permit::{FairLock, Permit, ReadLock, WriteGuard, WriteLock},
};
use lock_testkit::{Seed, Stream};
use std::{future::poll_fn, pin::Pin, task::Poll, time::Duration};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

/// The limit of the semaphores that [`share`] uses.
pub const LIMIT: u32 = 5;
/// The maximum weight of their permits.
const MAX_WEIGHT: u64 = 3;
/// The part of a writer, which excludes all others.
const WRITER: Part = Part { weight: Share::MAX_LIMIT, limit: Share::MAX_LIMIT };
const READER: Part = Part { weight: 1, limit: Share::MAX_LIMIT };

/// A lock or a pool, by name.
#[derive(Debug, Clone)]
pub(super) enum Named {
    Lock(Lock),
    Fair(FairLock),
    Read(ReadLock),
    Write(WriteLock),
}

impl Named {
    pub(super) async fn acquire(&self) -> Result<Held, LockError> {
        Ok(match self {
            Self::Lock(lock) => Held::lock(lock.acquire().await?),
            Self::Fair(pool) => Held::permit(pool.acquire().await?, None),
            Self::Read(pool) => Held::permit(pool.acquire().await?, Some(READER)),
            Self::Write(pool) => Held::permit(pool.acquire().await?, Some(WRITER)),
        })
    }

    pub(super) fn name(&self) -> &LockName {
        match self {
            Self::Lock(lock) => lock.name(),
            Self::Fair(pool) => pool.name(),
            Self::Read(pool) => pool.name(),
            Self::Write(pool) => pool.name(),
        }
    }
}

/// The guard of a lock or of a permit. It is released when it is dropped.
pub(super) struct Held {
    pub(super) hold: Hold,
    pub(super) part: Option<Part>,
    /// Owns the guard.
    release: Pin<Box<dyn Future<Output = Result<ReleaseOutcome, LockError>> + Send>>,
}

impl Held {
    fn lock(guard: LockGuard) -> Self {
        Self { hold: guard.hold(), part: None, release: Box::pin(guard.release()) }
    }

    fn permit<K: 'static>(permit: Permit<K>, part: Option<Part>) -> Self {
        Self { hold: permit.hold(), part, release: Box::pin(permit.release()) }
    }

    pub(super) async fn release(self) -> Result<ReleaseOutcome, LockError> {
        self.release.await
    }
}

/// Takes permits of semaphores, read-write locks and fair locks of these names for as long as it is polled, in several
/// tasks. Ends with the first error of any task.
///
/// # Errors
/// An error of an acquire that is neither an outage nor ambiguous.
///
/// # Cancel safety
/// Dropping it drops all permits.
pub async fn share(
    locks: &LockFactory,
    names: &[String],
    tasks: u64,
    (lease, seed): (Duration, Seed),
    witness: Option<Witness>,
) -> Result<(), Failure> {
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let random = Seed::new(seed.get().rotate_left(8) ^ task).stream();
        let names = names.iter().map(LockName::new).collect::<Result<_, _>>()?;
        let (locks, witness) = (locks.clone(), witness.clone());
        running.spawn(Sharer { locks, names, lease, witness, random }.work());
    }
    match running.join_next().await {
        Some(failure) => failure?,
        None => Ok(()),
    }
}

/// A task of [`share`].
struct Sharer {
    locks: LockFactory,
    names: Vec<LockName>,
    lease: Duration,
    witness: Option<Witness>,
    random: Stream,
}

impl Sharer {
    async fn work(mut self) -> Result<(), Failure> {
        loop {
            match self.take().await {
                Ok(()) => {}
                Err(error) if error.is_retryable() || error.is_ambiguous() => {}
                Err(error) => return Err(error.into()),
            }
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Tries to take and to hold one permit.
    async fn take(&mut self) -> Result<(), LockError> {
        let name = usize::try_from(self.random.below(self.names.len() as u64)).unwrap_or(0);
        let name = self.names[name].clone();
        let (semaphore, pair) = (self.locks.semaphore(&name, LIMIT)?, self.locks.rw_lock(&name)?);
        // Some waits are dropped at a random moment.
        let patience = match self.random.below(4) {
            0 => Duration::from_millis(self.random.below(30)),
            _ => self.lease * 8,
        };
        let weight = u32::try_from(1 + self.random.below(MAX_WEIGHT)).unwrap_or(1);
        let part = Part { weight, limit: LIMIT };
        match self.random.below(10) {
            0 => {
                if let Some(permit) = semaphore.try_acquire_many(weight).await? {
                    self.hold(permit, Some(part)).await;
                }
            }
            1..6 => {
                if let Ok(permit) = timeout(patience, semaphore.acquire_many(weight)).await {
                    self.hold(permit?, Some(part)).await;
                }
            }
            6 => {
                let fair = self.locks.fair(&name)?;
                if let Ok(permit) = timeout(patience, fair.acquire()).await {
                    self.hold(permit?, None).await;
                }
            }
            7 => {
                if let Ok(writer) = timeout(patience, pair.write().acquire()).await {
                    self.write(writer?).await;
                }
            }
            _ => {
                if let Ok(reader) = timeout(patience, pair.read().acquire()).await {
                    self.hold(reader?, Some(READER)).await;
                }
            }
        }
        Ok(())
    }

    async fn write(&mut self, writer: WriteGuard) {
        if self.random.below(2) == 0 {
            return self.hold(writer, Some(WRITER)).await;
        }
        let inside = self.witness.as_ref().map(|witness| witness.takes(writer.hold(), Some(WRITER)));
        sleep(Duration::from_millis(self.random.below(10))).await;
        drop(inside);
        self.hold(writer.downgrade(), Some(READER)).await;
    }

    async fn hold<K>(&mut self, permit: Permit<K>, part: Option<Part>) {
        let inside = self.witness.as_ref().map(|witness| witness.takes(permit.hold(), part));
        // Usually short, sometimes longer than several renewals.
        let time = match self.random.below(20) {
            0 => self.lease * 3 / 2,
            _ => Duration::from_millis(self.random.below(10)),
        };
        sleep(time).await;
        drop(inside);
        if self.random.below(4) == 0 {
            drop(permit);
        } else {
            // The referee judges what has become of the hold.
            let _ = permit.release().await;
        }
    }
}

/// At each order `go`, queues tasks for a fair lock one after another, and reports each `turn`, and `done`.
pub(super) async fn queue(
    locks: &LockFactory,
    name: &str,
    (tasks, seed): (u64, Seed),
    orders: &mut Orders,
) -> Result<(), Failure> {
    let (fair, mut random) = (locks.fair(name)?, seed.stream());
    let process = locks.process_id().to_string();
    Report::Ready.say();
    loop {
        orders.wait_for(&Order::Go).await;
        let mut running = JoinSet::new();
        for number in 0..tasks {
            let (mut acquiring, process) = (Box::pin(fair.acquire()), process.clone());
            // Asks now, before the next one.
            let _ = poll_fn(|context| Poll::Ready(acquiring.as_mut().poll(context).is_ready())).await;
            running.spawn(async move {
                let permit = acquiring.await?;
                Report::Turn { process, number, token: permit.fencing_token().get() }.say();
                permit.release().await.map(drop)
            });
            sleep(Duration::from_micros(random.below(3_000))).await;
        }
        while let Some(turn) = running.join_next().await {
            turn??;
        }
        Report::Done { sections: usize::try_from(tasks)? }.say();
    }
}
