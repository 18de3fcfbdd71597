//! The list of planted bugs, with the checkers that catch each.

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
    /// The tests on real Redis servers (`verify/redis`).
    Redis,
}

macro_rules! planted_bugs {
    ($($(#[$doc:meta])* $bug:ident: [$($checker:ident),+],)*) => {
        /// A known bug, planted on purpose.
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

impl PlantedBug {
    /// Returns the bugs that this checker catches, in the order of the list.
    pub fn caught_by_checker(checker: Checker) -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(move |bug| bug.caught_by().contains(&checker))
    }
}

planted_bugs! {
    // The store rules.
    /// The store executes acquires, re-entries and renewals after their `not_after`.
    IgnoresNotAfter: [Conformance, Model, Sim],
    /// A renewal of a missing lease creates it again.
    RenewalCreates: [Conformance, Model, Sim],
    /// A re-entry of a missing lease creates it again.
    ReentryCreates: [Conformance, Model],
    /// A renewal extends any lease of the lock.
    RenewWithoutCompare: [Conformance, Model],
    /// A release deletes any lease of the lock.
    DeleteWithoutCompare: [Conformance, Storm, Model, Sim],
    /// A forced release frees the lock of any holder.
    ForceWithoutCompare: [Conformance],
    /// Acquires, re-entries and releases increment and decrement the depth instead of setting it.
    CountsDepth: [Conformance, Model],
    /// A repeated acquire sets the depth to one.
    RepeatResetsDepth: [Conformance],
    /// A renewal or a re-entry sets the expiry to half of what it asks for, even if that is earlier than before.
    ShortensExpiry: [Conformance, Model, Sim],
    /// A re-entry succeeds without extending the lease.
    ReentryNotExtended: [Conformance, Sim],
    /// A lease lasts a thousand times as long as requested.
    LeaseNeverEnds: [Conformance, Storm],
    /// A lease lasts half as long as requested.
    LeaseEndsEarly: [Conformance, Storm],
    /// The store grants a lock whose lease has less than a third left.
    GrantsEarly: [Sim],
    /// All tokens are the same.
    ConstantToken: [Conformance, Storm, Sim],
    /// Tokens are a plain counter that is lost with the data.
    TokensRestart: [Model, Sim],
    /// The tokens of a reserved range are granted again.
    UnreservedRange: [Conformance],
    /// The floor of a request for tokens is ignored.
    IgnoresFloor: [Conformance],
    /// A release of a missing lease does not report that another lease holds the lock.
    HidesOtherHolder: [Conformance],
    /// Names that differ only in case are one lock.
    IgnoresCase: [Conformance],
    /// Names are cut after their hash tag.
    CutsNames: [Conformance],
    /// The server time in answers decreases.
    ServerTimeFalls: [Conformance],

    // The store as a whole.
    /// An acquire checks that the lock is free and takes it in two steps.
    CheckThenSet: [Conformance],
    /// The answers to renewals that were sent together are reordered.
    ShufflesRenewals: [Conformance],
    /// Renewals that were sent together all get the duration of the first.
    OneDurationForAll: [Conformance],
    /// The store occasionally answers *gone* for a lease that exists.
    FalseGone: [Sim],
    /// A stale replica occasionally answers renewals and releases with *gone*, because it never had the lease.
    StaleReplicaAnswers: [Sim],

    // Subscriptions.
    /// A subscription is acknowledged before it exists.
    SubscribesLate: [Conformance, Model],
    /// A subscription is never ended.
    NeverUnsubscribes: [Conformance, Sim],
    /// A release does not notify any waiter.
    NeverNotifies: [Conformance],
    /// A release notifies waiters when it should not.
    AlwaysNotifies: [Conformance],
    /// A release that leaves some depth notifies waiters.
    NotifiesPartialRelease: [Conformance],

    // The network, the boundary of the driver, clocks.
    /// A lost renewal is taken for a success.
    LostRenewalSucceeds: [Model, Sim],
    /// A renewal without an answer ends the hold.
    RenewalErrorIsLoss: [Model, Sim],
    /// A release of a missing lease is taken for one that freed the lock.
    GoneIsReleased: [Model, Sim],
    /// Releases are answered without being sent.
    DropsReleases: [Sim],
    /// Releases are resent by the backend, which returns the second answer.
    HidesResends: [Sim],
    /// An acquire that was answered is delivered again, up to a second later. The contract of a backend forbids it:
    /// after the release and before the request's `not_after`, it creates a lease that no process knows.
    LateDuplicates: [Sim],
    /// A failed item of a batch fails the other items, which were executed.
    BatchErrorFailsNeighbours: [Sim, Redis],
    /// The clocks of processes are slower than the margin allows.
    SlowClock: [Sim],

    // The protected resource.
    /// The resource does not check the token of a write.
    UnfencedWrite: [Sim],
    /// The resource checks tokens only on writes.
    UnfencedRead: [Sim],

    // The state machine.
    /// The hold is measured from the reply instead of from before the request.
    DeadlineFromReply: [Model],
    /// A wake-up is ignored while an attempt is in flight.
    WakeIgnoredDuringAttempt: [Model],
    /// A dropped guard lowers the depth while a re-entry is in flight.
    DepthOverlap: [Model],
    /// An abandoned attempt is not undone.
    NoUndo: [Model],
    /// The loss of a hold is not reported.
    LossNotReported: [Model],
    /// A lease is handed off with tokens that were not reserved.
    HandsOffBeyondRange: [Model],
    /// A lease is handed off without limit.
    HandsOffForEver: [Model],
    /// A lease is handed off to a waiter with different options.
    HandsOffUnderOtherTerms: [Model],
    /// A lease is handed off although the clock of its process jumped.
    HandsOffSuspect: [Model],
    /// A hold that is released before its minimum is released in the store at once.
    IgnoresMinHold: [Model, Sim],

    // The quorum.
    /// The token of a hold is the highest that a node of its majority drew.
    MaximumOfMajority: [Model],
    /// Votes for different proposals of a round are added together.
    AddsVotes: [Model, Sim],
    /// All rounds of a client use one lease id.
    ReusesLease: [Model, Sim],
    /// The undo of a lost round notifies waiters.
    UndoPublishes: [Model, Sim],
    /// A node that lost its data votes immediately.
    NoQuarantine: [Model, Sim],
    /// Requests to all nodes are stamped and judged by one clock.
    OneClockForNodes: [Model, Sim],
    /// Votes for different renewals of a hold are added together.
    AddsRenewals: [Model],
    /// A node on which a lost lease is set again does not get its counter back.
    HealKeepsCounter: [Model],

    // The driver.
    /// A future that is dropped with its grant keeps the lock forever.
    ForgetsGrant: [Shuttle],
    /// A waiter reads its result and registers its waker in two steps.
    RegistersWakerLate: [Shuttle],
    /// The worker is notified before the work is in its queue.
    NotifiesBeforeQueueing: [Shuttle],
    /// An entry stays marked as queued until the worker is done with it.
    ClearsQueuedMarkLate: [Shuttle],
    /// A waiter enters an entry that was removed from the table.
    EntersRemovedEntry: [Shuttle],
    /// The flag that a call was answered is read and written in two steps.
    AnswersTwice: [Shuttle],
    /// The flag that a submitted operation was answered is read and written in two steps: its answer and its deadline
    /// both count.
    DeliversTwice: [Shuttle],
    /// A submitted operation that its pipeline drops is not answered before its deadline.
    ForgetsDroppedOperation: [Shuttle],
    /// A shutdown does not wait for submitted operations.
    SubmitsUncounted: [Shuttle],
    /// The holder of a grant is woken before observers are notified of it.
    WakesBeforeObserving: [Shuttle],
    /// A worker that ends leaves the calls that wait for it in the queue.
    LeavesCallToEndedWorker: [Shuttle],
    /// A call that ends with its runtime gets no answer.
    DropsCalls: [Shuttle],
    /// Activities are counted in two steps.
    CountsInTwoSteps: [Shuttle],
    /// A shutdown does not wait for an acquire that is entering.
    EntersUncounted: [Shuttle],
    /// A loss future that was polled before waits for its waker and does not compare the clock.
    LossNeedsWakeup: [Shuttle],
    /// Callers that set an alarm wake the timekeeper.
    CallersWakeTimekeeper: [Shuttle],
    /// A panicking waker ends the task that woke it.
    WakerPanicEndsWorker: [Shuttle],

    // The run ledger.
    /// A repeated claim is taken for a new claim.
    ForgetsClaims: [LedgerConformance],
    /// A repeated claim does not renew its lease.
    RepeatWithoutRenewal: [LedgerConformance],
    /// A repeated claim is granted although its lease has ended.
    GrantsExpiredRepeat: [LedgerConformance],
    /// A repeated skip starts the run.
    StartsRepeatedSkip: [LedgerConformance],
    /// Repeated skips of consecutive instants are counted twice.
    CountsRepeatedSkipTwice: [LedgerConformance],
    /// A skip of consecutive instants does not move the watermark.
    SkipKeepsWatermark: [LedgerConformance],
    /// Each skip is a separate entry in the history.
    NeverFoldsSkips: [LedgerConformance],
    /// A changed schedule starts at the watermark of the job.
    IgnoresScheduleStart: [LedgerConformance],
    /// Each registration restarts the job.
    RegistrationRestartsJob: [LedgerConformance],
    /// Reading watermarks registers jobs.
    ReadRegisters: [LedgerConformance],
    /// Failures and orphanings share one budget of retries.
    SharedRetryBudget: [LedgerConformance],
    /// A run that is handed over stays open until its lease ends.
    HandsOverLate: [LedgerConformance],
    /// Requeueing a run ends it.
    GiveBackEndsRun: [LedgerConformance],
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
    /// An attempt other than the last one can be followed.
    RetriesAnyAttempt: [LedgerConformance],
    /// An attempt that is still running is followed by another.
    RetriesRunningAttempt: [LedgerConformance],
    /// An attempt ignores a later run that is open.
    RetryIgnoresOthers: [LedgerConformance],
    /// An attempt reuses the token of the previous one.
    RetryReusesToken: [LedgerConformance],
    /// A claim of a job without a watermark creates one.
    ClaimMakesWatermark: [LedgerConformance],
    /// An instant starts twice.
    StartsDuplicates: [LedgerConformance],
    /// An instant before the watermark is started.
    StartsSuperseded: [LedgerConformance],
    /// An instant is started before its time.
    StartsEarly: [LedgerConformance],
    /// Open runs are ignored.
    IgnoresOverlap: [LedgerConformance],
    /// An instant that is skipped because of an open run is not decided.
    SkipDecidesNothing: [LedgerConformance],
    /// An instant that waits for an open run is skipped.
    QueueDecides: [LedgerConformance],
    /// A run that is to be replaced is not asked to end.
    ReplacesSilently: [LedgerConformance],
    /// One run more than allowed can be open.
    AllowsOneMore: [LedgerConformance],
    /// Orphans count as open runs.
    CountsOrphans: [LedgerConformance],
    /// A run that waits for its next attempt does not count as open.
    ForgetsWaiting: [LedgerConformance],
    /// Pools are ignored.
    IgnoresPools: [LedgerConformance],
    /// A pool counts only the runs of the claim's own job.
    PoolOfOneJob: [LedgerConformance],
    /// One run more than allowed can be open in a pool.
    PoolAllowsOneMore: [LedgerConformance],
    /// Further attempts ignore the pool.
    RetriesIgnorePool: [LedgerConformance],
    /// Orphans take places in their pools.
    OrphansFillPool: [LedgerConformance],
    /// A run that waits for its next attempt takes no place in its pool.
    WaitingLeavesPool: [LedgerConformance],
    /// An instant that finds its pool full is skipped.
    FullPoolDecides: [LedgerConformance],
    /// All runs get the same token.
    ConstantRunToken: [LedgerConformance],
    /// A claim checks and decides in two steps.
    CheckThenClaim: [LedgerConformance],
    /// A renewal revives a run whose lease has ended.
    RevivesOrphans: [LedgerConformance],
    /// A renewal extends a run for any claim.
    RenewsRunWithoutCompare: [LedgerConformance],
    /// An end is accepted from any claim.
    EndsRunWithoutCompare: [LedgerConformance],
    /// A repeated end is not recognised.
    ForgetsEnds: [LedgerConformance],
    /// A paused job starts.
    IgnoresPauses: [LedgerConformance],
    /// A claim that was planned before a change of controls is granted.
    IgnoresRevisions: [LedgerConformance],
    /// Revisions are counted from 1.
    RestartsRevisions: [LedgerConformance],
    /// A trigger that was executed is listed again.
    RepeatsTriggers: [LedgerConformance],
    /// A claim is granted although an earlier instant is not decided.
    IgnoresUndecided: [LedgerConformance],
    /// A node whose lease has ended stays in the list.
    DeadNodesStay: [LedgerConformance],
    /// A heartbeat never reads changed controls.
    HeartbeatHidesControls: [LedgerConformance],
    /// A claim that was planned by an earlier definition is granted.
    IgnoresDefinitions: [LedgerConformance],
    /// A repeated request to add an instance restarts it.
    RepeatedAddRestarts: [LedgerConformance],
    /// A forgotten instance keeps its record.
    ForgetKeepsRecord: [LedgerConformance],
    /// A reader of changed instances does not read removals.
    HidesRemovals: [LedgerConformance],
    /// An instance that runs once can be added again after its run.
    OnceRunsAgain: [LedgerConformance],
    /// Controls from before a loss of data replace newer ones.
    ReinstatesOldControls: [LedgerConformance],
    /// A summary has no schedules.
    ForgetsDescriptions: [LedgerConformance],
    /// A summary has no last success.
    ForgetsLastSuccess: [LedgerConformance],
    /// A failure counts from its last attempt.
    RestartsFailures: [LedgerConformance],
    /// The note of a pause is not kept.
    ForgetsPauseNotes: [LedgerConformance],
    /// The next attempt of a triggered run has no payload.
    RetryForgetsPayload: [LedgerConformance],
    /// The payload of a withdrawn trigger is kept.
    KeepsWithdrawnPayload: [LedgerConformance],
    /// Any number of triggers with a payload may wait.
    UnboundedPayloads: [LedgerConformance],
    /// The progress of a backfill is not kept.
    ForgetsBackfilled: [LedgerConformance],
    /// A run of a backfill is skipped while other runs are open.
    SkipsBackfill: [LedgerConformance],
    /// A backfill continues while its job is paused.
    BackfillsPausedJobs: [LedgerConformance],
    /// A backfill cannot be cancelled.
    IgnoresBackfillCancel: [LedgerConformance],
    /// Any number of backfills may be open.
    UnboundedBackfills: [LedgerConformance],
    /// A cancelled run is not asked to end.
    CancelsSilently: [LedgerConformance],
    /// All open runs are cancelled in place of one.
    CancelsAllRuns: [LedgerConformance],
    /// A cancelled run that fails is retried.
    RetriesCancelled: [LedgerConformance],
}
