//! Queries about locks and their store (holder, process, held locks, health), and forced releases.

use super::{ForceReleaseOutcome, Health, Inspection, ListLimits, Listing, LocalHold, ProcessCard};
use crate::{
    backend::{
        Applied, BackendError, BackendErrorKind, ForceReleaseRequest, ForceReleased, Inspected, LeaseId,
        Reply, StoredHold,
    },
    error::{LockError, LockErrorKind},
    factory::LockFactory,
    name::{LockName, NameError, reserved},
};
use std::{collections::BTreeMap, future::Future};

impl LockFactory {
    /// Looks up a name: its holder in the store, the [card](ProcessCard) of the holder's process, and the hold and the
    /// waiters in this process. The card is read after the holder, and is missing if it cannot be read within the
    /// operation timeout.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// use lock_core::{LockFactory, MemoryBackend};
    ///
    /// let locks = LockFactory::new(MemoryBackend::new());
    /// let inspection = locks.inspect("stock:42").await?;
    /// match (&inspection.stored, &inspection.process) {
    ///     (None, _) => println!("free"),
    ///     (Some(held), None) => println!("held by {}", held.lease),
    ///     (Some(held), Some(process)) => println!("held by {}: {process}", held.lease),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidName`]; [`LockErrorKind::Unavailable`] or [`LockErrorKind::Backend`] if the store
    /// fails or does not reply within the operation timeout.
    ///
    /// # Cancel safety
    /// Cancel safe: it changes nothing.
    pub async fn inspect<N>(&self, name: N) -> Result<Inspection, LockError>
    where
        N: TryInto<LockName>,
        NameError: From<N::Error>,
    {
        let name = self.parse(name)?;
        let Reply { outcome, votes, .. } = self.stored(&name).await?;
        let stored = match outcome {
            Inspected::Held(stored) => Some(stored),
            // A lock has no permits.
            Inspected::Free | Inspected::Pool(_) => None,
        };
        let process = match &stored {
            Some(stored) => self.card_of(&stored.lease).await,
            None => None,
        };
        let (mut local, waiters) = self.handle().local_view(&name);
        Ok(Inspection { stored, process, local: local.pop(), waiters, votes })
    }

    /// Forcibly releases a lock: looks up the holder, and frees the lock if that holder still has it. The holder
    /// notices at its next renewal, or at its deadline at the latest. Only the fencing token prevents its late
    /// writes.
    ///
    /// The call frees the *lease* that it finds. A process can hand its lease from task to task
    /// ([`hand_off`](crate::LockOptions::hand_off), by default for at most 40 ms): the forced release then ends the
    /// hold of the task that has the lease when the store executes it. This factory does not hand it off again. Another
    /// process learns of the forced release at its next renewal, and can hand the freed lease on until its budget of
    /// hand-offs is spent; these holds have smaller tokens than the next grant of the store.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use lock_core::inspect::ForceReleaseOutcome;
    ///
    /// let guard = locks.named("stock:42")?.acquire().await?;
    /// let outcome = locks.force_release("stock:42").await?;
    /// assert_eq!(outcome, ForceReleaseOutcome::Released { lease: guard.hold().lease_id().to_string() });
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidName`]; [`LockErrorKind::Unavailable`] or [`LockErrorKind::Backend`] if the store
    /// fails; the lock may then have been freed.
    ///
    /// # Cancel safety
    /// A dropped call may or may not have freed the lock. Repeating the call is safe: it only frees the holder that
    /// it finds.
    pub async fn force_release<N>(&self, name: N) -> Result<ForceReleaseOutcome, LockError>
    where
        N: TryInto<LockName>,
        NameError: From<N::Error>,
    {
        let name = self.parse(name)?;
        let Inspected::Held(StoredHold { lease, .. }) = self.stored(&name).await?.outcome else {
            return Ok(ForceReleaseOutcome::NotHeld);
        };
        self.force_release_of(&name, &lease).await
    }

    /// Frees the lock if this lease holds it, or ends the permit or the place of a pool with this id.
    pub(crate) async fn force_release_of(
        &self,
        name: &LockName,
        lease: &str,
    ) -> Result<ForceReleaseOutcome, LockError> {
        // If the hold is ours, its lease is not handed off any more: a later holder in this process would have a
        // smaller token than a holder in another process that was granted in the meantime.
        self.handle().suspect(name);
        let request = ForceReleaseRequest { name: self.handle().stored(name), seen: lease.to_owned() };
        let freed = self.in_time(Applied::Unknown, self.handle().backend.force_release(request));
        let reply = freed.await.map_err(|error| error.of(name))?;
        // If the hold was ours, the holder learns of it immediately instead of at its next renewal.
        self.handle().suspect(name);
        Ok(match reply.outcome {
            ForceReleased::Released => ForceReleaseOutcome::Released { lease: lease.to_owned() },
            ForceReleased::HolderChanged => ForceReleaseOutcome::HolderChanged,
        })
    }

    /// Checks that the store responds. Meant for readiness probes.
    ///
    /// A call sends at most one request. For a second after a check, calls return the same result without a request;
    /// concurrent calls share one check. A call returns within two of the factory's operation timeouts (3 s each by
    /// default): one to wait for another caller's check, and one for its own.
    ///
    /// The request reads the name `distlock:health`: in a cluster from the master that serves this name, in a quorum
    /// from a majority of the nodes. A factory that was shut down reports [`Failing`](Health::Failing) with
    /// [`LockErrorKind::ShutDown`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use lock_core::{LockFactory, MemoryBackend, inspect::Health};
    ///
    /// let locks = LockFactory::new(MemoryBackend::new());
    /// match locks.health().await {
    ///     Health::Failing { failing_for, error } => println!("not ready for {failing_for:?}: {error:#}"),
    ///     _ => println!("ready"),
    /// }
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Cancel safe. A dropped check does not count as a failure.
    pub async fn health(&self) -> Health {
        let shared = self.handle();
        let turn = async { Ok(shared.checks.turn.lock().await) };
        let _turn = match self.in_time(Applied::No, turn).await {
            Ok(turn) => turn,
            Err(error) => return shared.checks.failing(shared.clock.now(), error),
        };
        let asked = shared.clock.now();
        if let Some(fresh) = shared.checks.fresh(asked).filter(|_| !shared.is_closed()) {
            return fresh;
        }
        let result = self.ask().await;
        let answered = shared.clock.now();
        shared.checks.add(answered, result.map(|()| answered.since(asked)))
    }

    async fn ask(&self) -> Result<(), LockError> {
        if self.handle().is_closed() {
            return Err(LockError::new(LockErrorKind::ShutDown));
        }
        let name = self.handle().stored(&reserved("health")?);
        self.in_time(Applied::No, self.handle().backend.inspect(name)).await.map(drop)
    }

    /// Returns the locks that this factory holds, by name, without any IO. Permits are not among them: see
    /// [`Pool::inspect`](crate::permit::Pool::inspect).
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let _guard = locks.named("stock:42")?.acquire().await?;
    /// for (name, hold) in locks.holds() {
    ///     println!("{name} for {:?}", hold.held_for);
    /// }
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn holds(&self) -> BTreeMap<LockName, LocalHold> {
        self.handle().local_holds()
    }

    /// Returns the names of the held locks that begin with `prefix`, whoever holds them, within the limits. Meant for
    /// operators: a store may have to read all of its keys, and its contents may change during the search. A lock that
    /// is taken or released during the search may or may not be listed.
    ///
    /// On Redis, every hash key counts as a lock; [`inspect`](Self::inspect) checks whether it is one. In a cluster
    /// each master is searched. If the factory has a [prefix](crate::LockFactoryBuilder::prefix), only the names under
    /// it are listed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// use lock_core::{LockFactory, MemoryBackend, inspect::ListLimits};
    ///
    /// let locks = LockFactory::new(MemoryBackend::new());
    /// let _guard = locks.named("stock:42")?.acquire().await?;
    /// let listing = locks.list("stock:", ListLimits::new().max_names(100)).await?;
    /// assert_eq!(listing.names[0].as_str(), "stock:42");
    /// assert!(!listing.truncated);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`LockErrorKind::Backend`] if the store cannot list locks (a quorum cannot), or if the account lacks the
    /// permission (`SCAN` on Redis); [`LockErrorKind::Unavailable`] if the store fails or does not reply at all within
    /// the limits.
    ///
    /// # Cancel safety
    /// Cancel safe: it changes nothing.
    pub async fn list(&self, prefix: &str, limits: ListLimits) -> Result<Listing, LockError> {
        self.handle().check_process()?;
        let Some(directory) = &self.handle().directory else {
            let message = "this store cannot list its locks: if it is a quorum, list them on each node";
            return Err(BackendError::new(BackendErrorKind::Unsupported, Applied::No, message).into());
        };
        let stored = directory.list(self.handle().stored_start(prefix), limits);
        let stored = self.handle().in_runtime(stored).await??;
        Ok(Listing::new(
            stored.names.iter().filter_map(|name| self.handle().unstored(name)),
            stored.truncated,
        ))
    }

    /// Returns the card of the holder's process. Nothing depends on it, so a failure counts as a missing card.
    pub(crate) async fn card_of(&self, lease: &str) -> Option<ProcessCard> {
        let lease = LeaseId::parse(lease)?;
        let directory = self.handle().directory.as_ref()?;
        let within = self.handle().terms(&self.handle().options).ok()?.operation_timeout;
        let read = async { tokio::time::timeout(within, directory.read_card(lease.process())).await };
        match self.handle().in_runtime(read).await.ok()? {
            Ok(Ok(card)) => card.map(ProcessCard::printable),
            Ok(Err(error)) => {
                tracing::debug!(error = %error, "failed to read the process card");
                None
            }
            Err(_) => {
                tracing::debug!("failed to read the process card within the operation timeout");
                None
            }
        }
    }

    /// Reads the stored record of a name.
    pub(crate) async fn stored(&self, name: &LockName) -> Result<Reply<Inspected>, LockError> {
        let stored = self.in_time(Applied::No, self.handle().backend.inspect(self.handle().stored(name)));
        stored.await.map_err(|error| error.of(name))
    }

    /// Limits `call` to the operation timeout. `overdue` states whether a call that times out may have been applied.
    async fn in_time<T>(
        &self,
        overdue: Applied,
        call: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, LockError> {
        let timeout = self.handle().terms(&self.handle().options)?.operation_timeout;
        self.handle().check_process()?;
        match self.handle().in_runtime(async { tokio::time::timeout(timeout, call).await }).await? {
            Ok(answer) => Ok(answer?),
            Err(_) => {
                let message = format!("the store did not reply within {timeout:?}");
                Err(BackendError::new(BackendErrorKind::Timeout, overdue, message).into())
            }
        }
    }
}
