//! Planted bugs, which prove that the checkers work.
//!
//! [`PlantedBug`] lists every bug planted in this workspace and the checkers that catch it. For each
//! checker, a test proves that it catches its bugs. Each kind of bug is planted in one place:
//!
//! | bugs in | are planted by |
//! | --- | --- |
//! | the store rules | [`BuggySlot`], [`BuggyPool`] and [`BuggyStore`], for all checkers |
//! | subscriptions and backend replies | the buggy backend in the conformance tests |
//! | the run ledger | the buggy ledger in the conformance tests |
//! | the state machine | wrappers around its events and commands, in `verify/model` |
//! | quorum nodes | [`BuggySlot`] and [`BuggyStore`] |
//! | quorum rounds | the clients and nodes in `verify/model/src/quorum` |
//! | the driver | patches to its source code, in `verify/shuttle` |
//! | the process boundary (interpretation of replies) | [`PlantedBug::renewed`] and [`PlantedBug::released`] |
//! | the network, clocks and the protected resource | `verify/sim` |
//! | the random numbers of a process and its copies | `verify/model`, `verify/sim` |
//! | the script of a batch | a client that alters it, in `verify/redis` |

mod pool;
mod store;

use lock_core::{
    backend::{Released, Renewed, Reply},
    clock::UtcTime,
};
pub use pool::BuggyPool;
pub use store::{BuggySlot, BuggyStore};

/// A checker that catches planted bugs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Checker {
    /// The conformance suite for backends ([`mod@crate::conformance`]).
    Conformance,
    /// The conformance suite for run ledgers.
    LedgerConformance,
    /// Whole factories under random faults (`tests/main/storm.rs`).
    Storm,
    /// The model checker (`verify/model`).
    Model,
    /// The simulation (`verify/sim`).
    Sim,
    /// The schedule explorer (`verify/shuttle`).
    Shuttle,
    /// The tests against real Redis servers (`verify/redis`).
    Redis,
}

macro_rules! planted_bugs {
    ($($(#[$doc:meta])* $bug:ident: [$($checker:ident),+],)*) => {
        /// A deliberately planted bug.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum PlantedBug {
            $($(#[$doc])* $bug,)*
        }

        impl PlantedBug {
            /// Every planted bug.
            pub const ALL: &[Self] = &[$(Self::$bug,)*];

            /// Returns the checkers that catch this bug, at least one.
            #[must_use]
            pub const fn caught_by(self) -> &'static [Checker] {
                match self {
                    $(Self::$bug => &[$(Checker::$checker),+],)*
                }
            }
        }
    };
}

planted_bugs! {
    // The store rules.
    /// The store executes acquires, re-entries and renewals after their `not_after`, in pools as well.
    IgnoresNotAfter: [Conformance, Model, Sim],
    /// A renewal of a missing lease creates it again.
    RenewalCreates: [Conformance, Model, Sim],
    /// A re-entry of a missing lease creates it again.
    ReentryCreates: [Conformance, Model],
    /// A renewal extends the lock's current lease, even if another process holds it.
    RenewWithoutCompare: [Conformance, Model],
    /// A release deletes the lock's current lease, even if another process holds it.
    DeleteWithoutCompare: [Conformance, Storm, Model, Sim],
    /// A forced release frees the lock regardless of its holder.
    ForceWithoutCompare: [Conformance],
    /// Acquires, re-entries and releases adjust the depth instead of setting it.
    CountsDepth: [Conformance, Model],
    /// A repeated acquire sets the depth to one.
    RepeatResetsDepth: [Conformance],
    /// A renewal or re-entry sets the expiry to half the requested duration, even if that is earlier
    /// than the current expiry.
    ShortensExpiry: [Conformance, Model, Sim],
    /// A re-entry succeeds without extending the lease.
    ReentryNotExtended: [Conformance, Sim],
    /// A lease lasts a thousand times as long as requested.
    LeaseNeverEnds: [Conformance, Storm],
    /// A lease lasts half as long as requested.
    LeaseEndsEarly: [Conformance, Storm],
    /// The store grants a held lock whose lease has less than a third left.
    GrantsEarly: [Sim],
    /// All tokens are the same.
    ConstantToken: [Conformance, Storm, Sim],
    /// Tokens come from a plain counter that is lost with the data.
    TokensRestart: [Model, Sim],
    /// Tokens from a reserved range are granted again.
    UnreservedRange: [Conformance],
    /// A request's token floor is ignored.
    IgnoresFloor: [Conformance],
    /// A release of a missing lease does not report that another lease holds the lock.
    HidesOtherHolder: [Conformance],
    /// Names that differ only in case refer to one lock.
    IgnoresCase: [Conformance],
    /// Names are truncated after their hash tag.
    CutsNames: [Conformance],
    /// The server time in replies decreases.
    ServerTimeFalls: [Conformance],

    // The rules of pools.
    /// A newcomer that fits is granted a permit that earlier waiters need.
    Overtakes: [Conformance, Model],
    /// The patience of a waiter is a thousand times as long as requested.
    KeepsDeadWaiters: [Conformance, Model],
    /// A release does not give up a place in the queue.
    KeepsPlaces: [Conformance, Model],
    /// A release grants the permit to the first waiter, whose process relies on the wake-up without a request.
    GrantsUnasked: [Conformance, Model],

    // The store as a whole.
    /// An acquire checks that the lock is free and takes it in two steps.
    CheckThenSet: [Conformance],
    /// The replies to a batch of renewals are reordered.
    ShufflesRenewals: [Conformance],
    /// All renewals in a batch get the first one's duration.
    OneDurationForAll: [Conformance],
    /// The store occasionally returns `Gone` for an existing lease.
    FalseGone: [Sim],
    /// A stale replica that never stored the lease occasionally returns `Gone` for renewals and
    /// releases.
    StaleReplicaAnswers: [Sim],

    // Subscriptions.
    /// A subscription is acknowledged before it is active.
    SubscribesLate: [Conformance, Model],
    /// A subscription is never ended.
    NeverUnsubscribes: [Conformance, Sim],
    /// A release does not notify any waiter.
    NeverNotifies: [Conformance],
    /// A release notifies waiters when it should not.
    AlwaysNotifies: [Conformance],
    /// A partial release notifies waiters.
    NotifiesPartialRelease: [Conformance],

    // The network, the driver's boundary, clocks.
    /// A lost renewal is treated as a success.
    LostRenewalSucceeds: [Model, Sim],
    /// A renewal without a reply ends the hold.
    RenewalErrorIsLoss: [Model, Sim],
    /// A release of a missing lease is treated as successful.
    GoneIsReleased: [Model, Sim],
    /// Releases succeed without being sent.
    DropsReleases: [Sim],
    /// The backend resends releases and returns the second reply.
    HidesResends: [Sim],
    /// A completed acquire is delivered again, up to a second later. The backend contract forbids
    /// this: after the release and before the request's `not_after`, the repeat creates a lease
    /// that belongs to no process.
    LateDuplicates: [Sim],
    /// A failed batch item fails the other items, although they were executed.
    BatchErrorFailsNeighbours: [Sim, Redis],
    /// Process clocks are slower than the margin allows.
    SlowClock: [Sim],

    // The process.
    /// Lease ids are drawn ahead and kept, so that a copy of the process has the same ones.
    DrawsIdsAhead: [Model, Sim],

    // The protected resource.
    /// The resource does not check the token of a write.
    UnfencedWrite: [Sim],
    /// The resource checks tokens only on writes.
    UnfencedRead: [Sim],

    // The state machine.
    /// The hold is measured from the reply instead of from the request.
    DeadlineFromReply: [Model],
    /// A wake-up is ignored while an attempt is in flight.
    WakeIgnoredDuringAttempt: [Model],
    /// A dropped guard reduces the depth while a re-entry is in flight.
    DepthOverlap: [Model],
    /// An abandoned attempt is not undone.
    NoUndo: [Model],
    /// An undo ends at its first reply, although an attempt may still be applied.
    EndsUndoEarly: [Model],
    /// The loss of a hold is not reported.
    LossNotReported: [Model],
    /// A lease is handed off with tokens that were not reserved.
    HandsOffBeyondRange: [Model],
    /// A lease is handed off without limit.
    HandsOffForEver: [Model],
    /// A lease is handed off to a waiter with different options.
    HandsOffUnderOtherTerms: [Model],
    /// A lease is handed off although its process's clock jumped.
    HandsOffSuspect: [Model],
    /// A lease is handed off although a re-entry has extended it.
    HandsOffExtended: [Model],
    /// A hold released before its minimum time is released in the store immediately.
    IgnoresMinHold: [Model, Sim],

    // The quorum.
    /// A hold's token is the highest that a node in its majority drew.
    MaximumOfMajority: [Model],
    /// Votes for different proposals in a round are summed.
    AddsVotes: [Model, Sim],
    /// A client uses one lease id for all its rounds.
    ReusesLease: [Model, Sim],
    /// Undoing a lost round notifies waiters.
    UndoPublishes: [Model, Sim],
    /// A node that lost its data votes immediately.
    NoQuarantine: [Model, Sim],
    /// Requests to all nodes are stamped and checked with one clock.
    OneClockForNodes: [Model, Sim],
    /// Votes for different renewals of a hold are summed.
    AddsRenewals: [Model],
    /// Restoring a lost lease on a node does not restore the lock's token counter.
    HealKeepsCounter: [Model],

    // The driver.
    /// A future dropped with its grant never releases the lock.
    ForgetsGrant: [Shuttle],
    /// A waiter reads its result and registers its waker in two steps.
    RegistersWakerLate: [Shuttle],
    /// The keeper is woken before the work is in its queue.
    NotifiesBeforeQueueing: [Shuttle],
    /// An entry stays marked as queued until the keeper has finished processing it.
    ClearsQueuedMarkLate: [Shuttle],
    /// A waiter joins an entry that was removed from the table.
    EntersRemovedEntry: [Shuttle],
    /// The reply to a submitted operation is taken and marked as taken in two steps, so its reply and its deadline can
    /// both take effect.
    DeliversTwice: [Shuttle],
    /// A reply that comes just before the wait for it begins is lost.
    LosesEarlyReply: [Shuttle],
    /// The store's future of an operation that has timed out is never dropped.
    KeepsTimedOutCalls: [Shuttle],
    /// A submitted operation that its store drops does not fail until its deadline.
    ForgetsDroppedOperation: [Shuttle],
    /// A shutdown can end while a submitted operation is in progress.
    SubmitsUncounted: [Shuttle],
    /// The holder of a grant is woken before observers are notified of it.
    WakesBeforeObserving: [Shuttle],
    /// Activities are counted in two steps.
    CountsInTwoSteps: [Shuttle],
    /// A shutdown can end while an acquire is entering the queue.
    EntersUncounted: [Shuttle],
    /// A `lost()` future that was already polled waits for its waker and does not check the clock.
    LossNeedsWakeup: [Shuttle],
    /// Each published time wakes the keeper.
    CallersWakeKeeper: [Shuttle],
    /// The keeper looks at the agenda before it says that times added from now on must wake it.
    EndsTurnLate: [Shuttle],
    /// A panicking waker ends the task that woke it.
    WakerPanicEndsWorker: [Shuttle],

    // The run ledger.
    /// A repeated claim is treated as a new claim.
    ForgetsClaims: [LedgerConformance],
    /// A repeated claim does not renew its lease.
    RepeatWithoutRenewal: [LedgerConformance],
    /// A repeated claim is granted although its lease has expired.
    GrantsExpiredRepeat: [LedgerConformance],
    /// A repeated skip starts the run.
    StartsRepeatedSkip: [LedgerConformance],
    /// Repeated skips of consecutive scheduled times are counted twice.
    CountsRepeatedSkipTwice: [LedgerConformance],
    /// A skip of consecutive scheduled times does not move the watermark.
    SkipKeepsWatermark: [LedgerConformance],
    /// A series of skips is counted although one of its times was started.
    SkipsStartedTimes: [LedgerConformance],
    /// Each skip is a separate entry in the history.
    NeverFoldsSkips: [LedgerConformance],
    /// A changed schedule starts at the job's watermark.
    IgnoresScheduleStart: [LedgerConformance],
    /// Each registration restarts the job.
    RegistrationRestartsJob: [LedgerConformance],
    /// Reading watermarks registers jobs.
    ReadRegisters: [LedgerConformance],
    /// Failed and orphaned attempts share one retry budget.
    SharedRetryBudget: [LedgerConformance],
    /// A run that is handed over stays open until its lease expires.
    HandsOverLate: [LedgerConformance],
    /// Requeueing a run ends it.
    GiveBackEndsRun: [LedgerConformance],
    /// A run that is postponed may continue immediately.
    ForgetsDelay: [LedgerConformance],
    /// The attempt that follows a requeued run is counted as a new one.
    CountsReleasedAttempt: [LedgerConformance],
    /// A trigger never expires.
    TriggerNeverExpires: [LedgerConformance],
    /// The triggers of all jobs share one limit.
    SharedTriggerBound: [LedgerConformance],
    /// A trigger cannot be cancelled.
    IgnoresTriggerCancel: [LedgerConformance],
    /// A reset does nothing.
    IgnoresReset: [LedgerConformance],
    /// Attempts are not limited.
    RetriesWithoutBound: [LedgerConformance],
    /// An attempt other than the last one can be retried.
    RetriesAnyAttempt: [LedgerConformance],
    /// An attempt that is still running is retried.
    RetriesRunningAttempt: [LedgerConformance],
    /// A retry ignores a later open run.
    RetryIgnoresOthers: [LedgerConformance],
    /// A retry reuses the previous attempt's token.
    RetryReusesToken: [LedgerConformance],
    /// A claim for a job without a watermark creates one.
    ClaimMakesWatermark: [LedgerConformance],
    /// A scheduled time starts two runs.
    StartsDuplicates: [LedgerConformance],
    /// A scheduled time before the watermark starts a run.
    StartsSuperseded: [LedgerConformance],
    /// A run starts before its scheduled time.
    StartsEarly: [LedgerConformance],
    /// Open runs are ignored.
    IgnoresOverlap: [LedgerConformance],
    /// A scheduled time skipped because of an open run stays undecided.
    SkipDecidesNothing: [LedgerConformance],
    /// A scheduled time that waits for an open run is skipped.
    QueueDecides: [LedgerConformance],
    /// A run that is to be replaced is not told to stop.
    ReplacesSilently: [LedgerConformance],
    /// One more run than allowed can be open.
    AllowsOneMore: [LedgerConformance],
    /// Orphans count as open runs.
    CountsOrphans: [LedgerConformance],
    /// A run that waits for its next attempt does not count as open.
    ForgetsWaiting: [LedgerConformance],
    /// Pools are ignored.
    IgnoresPools: [LedgerConformance],
    /// A pool counts only the runs of the claiming job.
    PoolOfOneJob: [LedgerConformance],
    /// One more run than allowed can be open in a pool.
    PoolAllowsOneMore: [LedgerConformance],
    /// Further attempts ignore the pool.
    RetriesIgnorePool: [LedgerConformance],
    /// Orphans count against the limits of their pools.
    OrphansFillPool: [LedgerConformance],
    /// A run that waits for its next attempt does not count against its pool's limit.
    WaitingLeavesPool: [LedgerConformance],
    /// A scheduled time is skipped if its pool is full.
    FullPoolDecides: [LedgerConformance],
    /// All runs get the same token.
    ConstantRunToken: [LedgerConformance],
    /// A claim checks and decides in two steps.
    CheckThenClaim: [LedgerConformance],
    /// A renewal revives a run whose lease has expired.
    RevivesOrphans: [LedgerConformance],
    /// A renewal extends a run for any claim.
    RenewsRunWithoutCompare: [LedgerConformance],
    /// An end is accepted from any claim.
    EndsRunWithoutCompare: [LedgerConformance],
    /// A repeated end is not recognised.
    ForgetsEnds: [LedgerConformance],
    /// A paused job starts.
    IgnoresPauses: [LedgerConformance],
    /// A claim planned before the controls changed is granted.
    IgnoresRevisions: [LedgerConformance],
    /// Revisions are counted from 1.
    RestartsRevisions: [LedgerConformance],
    /// A trigger that was executed is listed again.
    RepeatsTriggers: [LedgerConformance],
    /// A claim is granted although an earlier scheduled time is undecided.
    IgnoresUndecided: [LedgerConformance],
    /// A claim is granted after the end of its grace.
    IgnoresGrace: [LedgerConformance],
    /// A node whose lease has expired stays in the list.
    DeadNodesStay: [LedgerConformance],
    /// A heartbeat never returns changed controls.
    HeartbeatHidesControls: [LedgerConformance],
    /// A claim planned with an earlier definition is granted.
    IgnoresDefinitions: [LedgerConformance],
    /// A repeated request to add an instance restarts it.
    RepeatedAddRestarts: [LedgerConformance],
    /// A removed instance keeps its record although it was to be erased.
    ForgetKeepsRecord: [LedgerConformance],
    /// Readers of changed instances do not see removals.
    HidesRemovals: [LedgerConformance],
    /// A one-time instance can be added again after its run.
    OnceRunsAgain: [LedgerConformance],
    /// Controls from before a data loss replace newer ones.
    ReinstatesOldControls: [LedgerConformance],
    /// A summary contains no schedules.
    ForgetsDescriptions: [LedgerConformance],
    /// A summary contains no last success.
    ForgetsLastSuccess: [LedgerConformance],
    /// A failure is dated from its last attempt.
    RestartsFailures: [LedgerConformance],
    /// The note on a pause is not kept.
    ForgetsPauseNotes: [LedgerConformance],
    /// A retry of a triggered run gets no payload.
    RetryForgetsPayload: [LedgerConformance],
    /// The payload of a withdrawn trigger is kept.
    KeepsWithdrawnPayload: [LedgerConformance],
    /// Any number of triggers with a payload may wait.
    UnboundedPayloads: [LedgerConformance],
    /// A backfill's progress is not kept.
    ForgetsBackfilled: [LedgerConformance],
    /// A backfill's run is skipped while other runs are open.
    SkipsBackfill: [LedgerConformance],
    /// A backfill continues while its job is paused.
    BackfillsPausedJobs: [LedgerConformance],
    /// A backfill cannot be cancelled.
    IgnoresBackfillCancel: [LedgerConformance],
    /// Any number of backfills may be open.
    UnboundedBackfills: [LedgerConformance],
    /// A cancelled run is not told to stop.
    CancelsSilently: [LedgerConformance],
    /// All open runs are cancelled instead of one.
    CancelsAllRuns: [LedgerConformance],
    /// A cancelled run that fails is retried.
    RetriesCancelled: [LedgerConformance],
}

impl PlantedBug {
    /// Returns the bugs that this checker catches, in declaration order.
    pub fn caught_by_checker(checker: Checker) -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(move |bug| bug.caught_by().contains(&checker))
    }

    /// Returns the reply to a renewal as a process with this bug interprets it.
    ///
    /// # Errors
    /// Returns the error of the reply, if any.
    pub fn renewed<E>(
        bug: Option<Self>,
        now: UtcTime,
        answer: Result<Reply<Renewed>, E>,
    ) -> Result<Reply<Renewed>, E> {
        match (bug, answer) {
            (Some(Self::LostRenewalSucceeds), Err(_)) => Ok(Reply::new(now, Renewed::Renewed)),
            (Some(Self::RenewalErrorIsLoss), Err(_)) => Ok(Reply::new(now, Renewed::Gone)),
            (_, answer) => answer,
        }
    }

    /// Returns the reply to a release as a process with this bug interprets it.
    #[must_use]
    pub fn released(bug: Option<Self>, answer: Released) -> Released {
        match (bug, answer) {
            (Some(Self::GoneIsReleased), Released::Gone { .. }) => Released::Released { listeners: None },
            (_, answer) => answer,
        }
    }
}
