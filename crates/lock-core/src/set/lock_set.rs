//! Several locks that are acquired together: their number and equality, and their acquisition in the order of their
//! names.

use super::{
    error::{MemberLost, SetError},
    guard::{LockSetGuard, Losses, SetHold, give_back},
};
use crate::{
    acquire::Wait,
    error::{LockError, LockErrorKind, RunError},
    factory::LockFactory,
    lock::Lock,
    machine::{LostReason, ReleaseOutcome},
    name::{LockName, NameError},
    options::LockOptions,
    owner::Owner,
};
use std::{collections::BTreeMap, future::Future, sync::Arc, time::Duration};

/// Several locks that are acquired together; returned by [`LockFactory::all`] without any IO.
///
/// It acquires one lock after the other, in the order of their names, and holds and renews the earlier ones
/// while it waits for the next. All sets use that order, so they cannot deadlock. A task that already holds
/// another lock when it acquires a set can deadlock: acquire the other lock after the set if its name
/// sorts last, or make it part of the set.
///
/// All locks have the same [options](Self::options) and the same owner, by default a fresh one for each
/// acquire. Duplicate names count as one lock. A set is a handle: it is cheap to clone and does not hold the
/// locks.
///
/// # Cost
/// An acquire takes one round trip to the store for each name. While the set waits for a lock, the locks that it
/// already holds keep their waiters waiting, so prefer one lock for resources that are always used together.
#[derive(Debug, Clone)]
pub struct LockSet {
    /// A lock with the first name, and the options and the owner of all locks.
    template: Lock,
    /// Sorted and distinct; at least one.
    names: Arc<[LockName]>,
}

impl LockFactory {
    /// Returns the set of the locks with these names, without any IO. The order of the names does not matter, and
    /// duplicates are removed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// use lock_core::{LockFactory, MemoryBackend};
    ///
    /// let locks = LockFactory::new(MemoryBackend::new());
    /// let guard = locks.all(["stock:b", "stock:a"])?.acquire().await?;
    /// println!("held with {:?} and {:?}", guard.fencing_token("stock:a"), guard.fencing_token("stock:b"));
    /// for (name, outcome) in guard.release().await {
    ///     println!("{name}: {outcome:?}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// - [`LockErrorKind::InvalidSet`] with a [`SetError`] if there are no names, or more than
    ///   [`LockSet::MAX_MEMBERS`];
    /// - as [`named`](Self::named) for each name; the error gives its position, starting at 0.
    pub fn all<I>(&self, names: I) -> Result<LockSet, LockError>
    where
        I: IntoIterator,
        I::Item: TryInto<LockName>,
        NameError: From<<I::Item as TryInto<LockName>>::Error>,
    {
        let members = names.into_iter().enumerate().map(|(place, name)| {
            self.named(name).map_err(|error| error.detail(format!("the name at index {place} of the set")))
        });
        LockSet::collect(members)
    }
}

impl LockSet {
    /// The maximum number of distinct names.
    pub const MAX_MEMBERS: usize = 64;

    /// Returns the set of these locks, without any IO.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use lock_core::set::LockSet;
    ///
    /// let set = LockSet::of([locks.named("stock:2")?, locks.named("stock:1")?])?;
    /// assert_eq!(set.names().len(), 2);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidSet`] with a [`SetError`] if there are no locks, if there are more than
    /// [`MAX_MEMBERS`](Self::MAX_MEMBERS), or if they differ in their options, owners or factories.
    pub fn of(locks: impl IntoIterator<Item = Lock>) -> Result<Self, LockError> {
        Self::collect(locks.into_iter().map(Ok))
    }

    fn collect(locks: impl Iterator<Item = Result<Lock, LockError>>) -> Result<Self, LockError> {
        let mut members: BTreeMap<LockName, Lock> = BTreeMap::new();
        for lock in locks {
            let lock = lock?;
            let name = lock.name().clone();
            if let Some((_, first)) = members.first_key_value() {
                check_equal(first, &lock)?;
            }
            if members.len() == Self::MAX_MEMBERS && !members.contains_key(&name) {
                return Err(SetError::TooMany { name, most: Self::MAX_MEMBERS }.into());
            }
            members.insert(name, lock);
        }
        let names: Arc<[_]> = members.keys().cloned().collect();
        let (_, template) = members.pop_first().ok_or(SetError::Empty)?;
        Ok(Self { template, names })
    }

    /// Returns the names, sorted.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let set = locks.all(["stock:2", "stock:1"])?;
    /// let names: Vec<_> = set.names().map(|name| name.as_str()).collect();
    /// assert_eq!(names, ["stock:1", "stock:2"]);
    /// # Ok(()) }
    /// ```
    pub fn names(&self) -> impl ExactSizeIterator<Item = &LockName> {
        self.names.iter()
    }

    /// Returns the options of the locks. Modify them and pass them to [`with_options`](Self::with_options).
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use std::time::Duration;
    ///
    /// let set = locks.all(["stock:2", "stock:1"])?;
    /// let set = set.with_options(set.options().max_hold(Duration::from_secs(60)))?;
    /// # Ok(()) }
    /// ```
    pub fn options(&self) -> LockOptions {
        self.template.options()
    }

    /// Returns the same set with other options for all locks; see [`Lock::with_options`].
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use lock_core::LockOptions;
    /// use std::time::Duration;
    ///
    /// let set = locks.all(["stock:2", "stock:1"])?;
    /// let set = set.with_options(LockOptions::new().lease(Duration::from_secs(10)))?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidOptions`] if they contradict each other or exceed the limits.
    pub fn with_options(&self, options: LockOptions) -> Result<Self, LockError> {
        Ok(Self { template: self.template.with_options(options)?, names: self.names.clone() })
    }

    /// Returns the same set for this owner, which re-enters the locks that it holds; see [`Lock::with_owner`].
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let set = locks.all(["stock:2", "stock:1"])?;
    /// let me = locks.owner();
    /// let outer = locks.named("stock:1")?.with_owner(&me)?.acquire().await?;
    /// let guard = set.with_owner(&me)?.acquire().await?; // re-enters `stock:1`
    /// assert_eq!(guard.fencing_token(outer.name()), Some(outer.fencing_token()));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`LockErrorKind::ForeignOwner`] if another factory created the owner.
    pub fn with_owner(&self, owner: &Owner) -> Result<Self, LockError> {
        Ok(Self { template: self.template.with_owner(owner)?, names: self.names.clone() })
    }

    /// Acquires all locks, waiting for as long as others hold one of them. Locks that are already acquired are renewed
    /// during the wait.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let set = locks.all(["stock:2", "stock:1"])?;
    /// let guard = set.acquire().await?;
    /// tokio::select! {
    ///     lost = guard.lost() => println!("stopped: {} was lost", lost.name),
    ///     () = async { println!("both are held") } => {}
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Same as [`Lock::acquire`], with the name of the affected lock, and [`LockErrorKind::MemberLost`] if a lock
    /// was lost while the set waited for a later one. Before the error is returned, the locks that were acquired are
    /// released, which takes at most two operation timeouts.
    ///
    /// # Cancel safety
    /// Cancel safe: a dropped future leaves nothing behind. Locks that were acquired are released in the background.
    pub fn acquire(&self) -> impl Future<Output = Result<LockSetGuard, LockError>> + Send + 'static {
        self.acquire_or_timeout(Wait::Forever)
    }

    /// Tries once to acquire all locks. Returns `None` if another owner holds one of them, or waits for one in this
    /// process; locks that were already acquired are released first.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let _one = locks.named("stock:1")?.acquire().await?;
    /// let set = locks.all(["stock:2", "stock:1"])?;
    /// assert!(set.try_acquire().await?.is_none());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Same as [`acquire`](Self::acquire), except that the first store failure is returned instead of retried.
    ///
    /// # Cancel safety
    /// Same as [`acquire`](Self::acquire).
    pub fn try_acquire(
        &self,
    ) -> impl Future<Output = Result<Option<LockSetGuard>, LockError>> + Send + 'static {
        let acquired = self.acquire_all(Wait::Once);
        async move { Ok(acquired.await?.ok()) }
    }

    /// Acquires all locks, waiting no longer than `wait` in total from the first poll. Zero means a single attempt.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use lock_core::LockErrorKind;
    /// use std::time::Duration;
    ///
    /// let _one = locks.named("stock:1")?.acquire().await?;
    /// let set = locks.all(["stock:2", "stock:1"])?;
    /// let error = set.acquire_timeout(Duration::from_millis(10)).await.unwrap_err();
    /// assert_eq!(error.kind(), LockErrorKind::Timeout);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Same as [`acquire`](Self::acquire), and [`LockErrorKind::Timeout`] with the name of the lock that it was
    /// waiting for; [`LockErrorKind::InvalidOptions`] if `wait` exceeds the factory's `max_wait`.
    ///
    /// # Cancel safety
    /// Same as [`acquire`](Self::acquire).
    pub fn acquire_timeout(
        &self,
        wait: Duration,
    ) -> impl Future<Output = Result<LockSetGuard, LockError>> + Send + 'static {
        self.acquire_or_timeout(Wait::For(wait))
    }

    fn acquire_or_timeout(
        &self,
        wait: Wait,
    ) -> impl Future<Output = Result<LockSetGuard, LockError>> + Send + 'static {
        let acquired = self.acquire_all(wait);
        async move { acquired.await?.map_err(|busy| LockError::new(LockErrorKind::Timeout).of(&busy)) }
    }

    /// Acquires one lock after the other, in the order of their names. If a single attempt finds a lock busy, the inner
    /// error is its name.
    ///
    /// On failure, it first releases the locks that it has acquired. A dropped future drops the pending acquire, and
    /// then the guards, which the keeper releases.
    fn acquire_all(
        &self,
        wait: Wait,
    ) -> impl Future<Output = Result<Result<LockSetGuard, LockName>, LockError>> + Send + 'static {
        let Self { template, names } = self.clone();
        async move {
            let wait = begin(&template, wait)?;
            let handle = template.handle();
            let given = template.given_owner();
            let owner = given.unwrap_or_else(|| Owner::new(handle.process, handle.fresh_owner()));
            let mut guards = Vec::with_capacity(names.len());
            let mut losses = Losses::default();
            for name in &*names {
                let acquire = template.acquire_member(name.clone(), owner, wait);
                let acquired = tokio::select! {
                    biased;
                    acquired = acquire => acquired,
                    lost = losses.first() => Err(lost.into()),
                };
                match acquired {
                    Ok(Some(guard)) => {
                        losses.add(guard.hold());
                        guards.push(guard);
                    }
                    failed => {
                        give_back(guards).await;
                        return failed.map(|_| Err(name.clone()));
                    }
                }
            }
            if let Some(lost) = losses.now() {
                give_back(guards).await;
                return Err(lost.into());
            }
            Ok(Ok(LockSetGuard::new(guards)))
        }
    }

    /// Acquires all locks, runs `work`, and releases the locks. If one of them is lost, `work` is dropped at its
    /// current await. `Ok` means the same as for [`Lock::run`], for each of the locks.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lock_core::{LockFactory, MemoryBackend};
    ///
    /// let locks = LockFactory::new(MemoryBackend::new());
    /// let names = locks.all(["b", "a"])?.run(|held| async move { held.holds().len() }).await?;
    /// assert_eq!(names, 2);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`RunError::NotAcquired`] if the work never started; [`RunError::MemberLost`], with the name of the lock, if a
    /// lock was lost before the work ended.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work and releases the locks in the background.
    pub async fn run<F, W>(&self, work: F) -> Result<W::Output, RunError>
    where
        F: FnOnce(SetHold) -> W,
        W: Future,
    {
        let guard = self.acquire().await?;
        let hold = guard.hold();
        let value = tokio::select! {
            biased;
            lost = hold.lost() => return Err(RunError::MemberLost(lost)),
            value = work(hold.clone()) => value,
        };
        if let Some(lost) = hold.first_lost() {
            return Err(RunError::MemberLost(lost));
        }
        // The store reports that a hold had already ended: the end of the work was not protected.
        let ended = |outcome: &Result<ReleaseOutcome, _>| matches!(outcome, Ok(how) if !how.was_held());
        match guard.release().await.into_iter().find(|(_, outcome)| ended(outcome)) {
            Some((name, _)) => Err(RunError::MemberLost(MemberLost { name, reason: LostReason::Gone })),
            None => Ok(value),
        }
    }
}

fn check_equal(first: &Lock, other: &Lock) -> Result<(), SetError> {
    let name = || other.name().clone();
    if !Arc::ptr_eq(first.handle(), other.handle()) || first.owner() != other.owner() {
        return Err(SetError::UnequalOwners { name: name() });
    }
    match first.options() == other.options() {
        true => Ok(()),
        false => Err(SetError::UnequalOptions { name: name() }),
    }
}

/// Turns a waiting time into a deadline that all locks share.
fn begin(template: &Lock, wait: Wait) -> Result<Wait, LockError> {
    let handle = template.handle();
    match wait {
        Wait::For(Duration::ZERO) => Ok(Wait::Once),
        Wait::For(wait) => {
            handle.limits.check_wait(wait)?;
            Ok(Wait::Until(handle.clock.now() + wait))
        }
        Wait::Once | Wait::Until(_) | Wait::Forever => Ok(wait),
    }
}
