//! The list of planted bugs, and who catches each.

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

            /// The checkers that catch this bug: at least one.
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
    /// The bugs that this checker catches, in the order of the list.
    pub fn caught_by_checker(checker: Checker) -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(move |bug| bug.caught_by().contains(&checker))
    }
}

planted_bugs! {
    // The store rules.
    /// The store carries out acquires, re-entries and renewals after their `not_after`.
    IgnoresNotAfter: [Conformance, Model, Sim],
    /// A renewal that finds nothing sets the lease again.
    RenewalCreates: [Conformance, Model, Sim],
    /// A re-entry that finds nothing sets the lease again.
    ReentryCreates: [Conformance, Model],
    /// A renewal extends whatever lease is there.
    RenewWithoutCompare: [Conformance, Model],
    /// A release deletes whatever lease is there.
    DeleteWithoutCompare: [Conformance, Storm, Model, Sim],
    /// A forced release frees whoever holds the lock.
    ForceWithoutCompare: [Conformance],
    /// Acquires, re-entries and releases count the depth up and down instead of stating it.
    CountsDepth: [Conformance, Model],
    /// A repeated acquire sets the depth to one.
    RepeatResetsDepth: [Conformance],
    /// A renewal or a re-entry sets the expiry to half of what it asks for, even if that is earlier than before.
    ShortensExpiry: [Conformance, Model, Sim],
    /// A re-entry is answered and extends nothing.
    ReentryNotExtended: [Conformance, Sim],
    /// A lease lasts a thousand times as long as asked.
    LeaseNeverEnds: [Conformance, Storm],
    /// A lease lasts half as long as asked.
    LeaseEndsEarly: [Conformance, Storm],
    /// The store grants a lock whose lease has less than a third left.
    GrantsEarly: [Sim],
    /// All tokens are the same.
    ConstantToken: [Conformance, Storm, Sim],
    /// Tokens are a plain counter that is lost with the data.
    TokensRestart: [Model, Sim],
    /// The tokens of a range are given again.
    UnreservedRange: [Conformance],
    /// The floor of a request for tokens is ignored.
    IgnoresFloor: [Conformance],
    /// A release that finds nothing does not say that another holds the lock.
    HidesOtherHolder: [Conformance],
    /// Names that differ in case are one lock.
    IgnoresCase: [Conformance],
    /// Names are cut behind their hash tag.
    CutsNames: [Conformance],
    /// The server time of answers falls.
    ServerTimeFalls: [Conformance],

    // The store as a whole.
    /// An acquire checks that the lock is free and takes it in two steps.
    CheckThenSet: [Conformance],
    /// The answers to renewals that were sent together come in another order.
    ShufflesRenewals: [Conformance],
    /// Renewals that were sent together all get the duration of the first.
    OneDurationForAll: [Conformance],
    /// The store now and then answers *gone* for a lease that is there.
    FalseGone: [Sim],
    /// A stale replica now and then answers renewals and releases: *gone*, for what it never had.
    StaleReplicaAnswers: [Sim],

    // Subscriptions.
    /// A subscription is acknowledged before it is made.
    SubscribesLate: [Conformance, Model],
    /// A subscription is never ended.
    NeverUnsubscribes: [Conformance, Sim],
    /// A release notifies nobody.
    NeverNotifies: [Conformance],
    /// A release notifies although it was asked not to.
    AlwaysNotifies: [Conformance],
    /// A release that leaves some depth notifies.
    NotifiesPartialRelease: [Conformance],

    // The network, the boundary of the driver, clocks.
    /// A renewal that was lost is taken for a success.
    LostRenewalSucceeds: [Model, Sim],
    /// A renewal without an answer ends the hold.
    RenewalErrorIsLoss: [Model, Sim],
    /// A release that finds nothing is taken for one that freed the lock.
    GoneIsReleased: [Model, Sim],
    /// Releases are answered without being sent.
    DropsReleases: [Sim],
    /// Releases are sent again by the backend, which keeps the second answer.
    HidesResends: [Sim],
    /// An acquire that was answered is delivered once more, up to a second later. The contract of a backend forbids it:
    /// after the release and before the request's `not_after` it leaves a lease that nobody knows of.
    LateDuplicates: [Sim],
    /// An item of a batch that fails fails the other items, which were carried out.
    BatchErrorFailsNeighbours: [Sim, Redis],
    /// The clocks of processes are slower than the margin allows.
    SlowClock: [Sim],

    // The protected resource.
    /// The resource does not check the token of a write.
    UnfencedWrite: [Sim],
    /// The resource checks tokens on writes alone.
    UnfencedRead: [Sim],

    // The state machine.
    /// The hold counts from the reply instead of from before the request.
    DeadlineFromReply: [Model],
    /// A wake-up is ignored while an attempt is in flight.
    WakeIgnoredDuringAttempt: [Model],
    /// A guard that leaves lowers the depth while a re-entry is in flight.
    DepthOverlap: [Model],
    /// An attempt that is given up is not undone.
    NoUndo: [Model],
    /// The loss of a hold is not reported.
    LossNotReported: [Model],
    /// A lease is passed on with tokens that were not reserved.
    HandsOffBeyondRange: [Model],
    /// A lease is passed on without end.
    HandsOffForEver: [Model],
    /// A lease is passed on to a waiter who asked for other terms.
    HandsOffUnderOtherTerms: [Model],
    /// A lease is passed on although the clock of its process jumped.
    HandsOffSuspect: [Model],

    // The quorum.
    /// The token of a hold is the highest that a node of its majority drew.
    MaximumOfMajority: [Model],
    /// Votes for different proposals of a round are added up.
    AddsVotes: [Model, Sim],
    /// All rounds of a client have one lease id.
    ReusesLease: [Model, Sim],
    /// The undo of a lost round notifies waiters.
    UndoPublishes: [Model, Sim],
    /// A node that lost its data votes at once.
    NoQuarantine: [Model, Sim],
    /// Requests to all nodes are stamped and judged by one clock.
    OneClockForNodes: [Model, Sim],
    /// The votes for different renewals of a hold are added up.
    AddsRenewals: [Model],
    /// A node that gets a lost lease again does not get the counter again.
    HealKeepsCounter: [Model],

    // The driver.
    /// A future that is dropped with its grant keeps the lock for ever.
    ForgetsGrant: [Shuttle],
    /// A waiter reads its result and leaves its waker in two steps.
    RegistersWakerLate: [Shuttle],
    /// The worker is notified before the work is in its queue.
    NotifiesBeforeQueueing: [Shuttle],
    /// An entry is marked as queued until the worker is done with it.
    ClearsQueuedMarkLate: [Shuttle],
    /// A waiter enters an entry that is no longer in the table.
    EntersRemovedEntry: [Shuttle],
    /// Whether a call was answered is read and written in two steps.
    AnswersTwice: [Shuttle],
    /// Whether a submitted operation was answered is read and written in two steps: its answer and its deadline both count.
    DeliversTwice: [Shuttle],
    /// A submitted operation that its pipeline drops is not answered before its time is over.
    ForgetsDroppedOperation: [Shuttle],
    /// A shutdown does not wait for operations that were submitted.
    SubmitsUncounted: [Shuttle],
    /// The holder of a grant is woken before observers hear of the grant.
    WakesBeforeObserving: [Shuttle],
    /// A worker that ends leaves the calls that wait for it in the queue.
    LeavesCallToEndedWorker: [Shuttle],
    /// A call that ends with its runtime gets no answer.
    DropsCalls: [Shuttle],
    /// What is going on is counted in two steps.
    CountsInTwoSteps: [Shuttle],
    /// A shutdown does not wait for an acquire that is entering.
    EntersUncounted: [Shuttle],
    /// A future of a loss that was polled before waits to be woken, and compares no clock.
    LossNeedsWakeup: [Shuttle],
    /// Callers that set an alarm wake the timekeeper.
    CallersWakeTimekeeper: [Shuttle],
    /// A waker that panics ends the task that woke it.
    WakerPanicEndsWorker: [Shuttle],

    // The run ledger.
    /// A repeated claim is taken for another claim.
    ForgetsClaims: [LedgerConformance],
    /// A repeated claim does not renew its lease.
    RepeatWithoutRenewal: [LedgerConformance],
    /// A repeated claim is granted though its lease is over.
    GrantsExpiredRepeat: [LedgerConformance],
    /// A skip that is repeated starts.
    StartsRepeatedSkip: [LedgerConformance],
    /// A row of skips that is repeated is counted twice.
    CountsRepeatedSkipTwice: [LedgerConformance],
    /// A row of skips does not move the watermark.
    SkipKeepsWatermark: [LedgerConformance],
    /// Each skip is an entry of the history.
    NeverFoldsSkips: [LedgerConformance],
    /// A changed schedule begins at the watermark of the job.
    IgnoresScheduleStart: [LedgerConformance],
    /// Each registration is a new beginning.
    RegistrationRestartsJob: [LedgerConformance],
    /// A read of watermarks registers jobs.
    ReadRegisters: [LedgerConformance],
    /// Failures and orphanings share one budget of retries.
    SharedRetryBudget: [LedgerConformance],
    /// A run that is handed over is open until its lease ends.
    HandsOverLate: [LedgerConformance],
    /// A run that is given back is over.
    GiveBackEndsRun: [LedgerConformance],
    /// The attempt that follows a run that was given back is counted as a further one.
    CountsReleasedAttempt: [LedgerConformance],
    /// A trigger never expires.
    TriggerNeverExpires: [LedgerConformance],
    /// The triggers of all jobs share one bound.
    SharedTriggerBound: [LedgerConformance],
    /// A trigger cannot be cancelled.
    IgnoresTriggerCancel: [LedgerConformance],
    /// A reset does nothing.
    IgnoresReset: [LedgerConformance],
    /// Attempts have no bound.
    RetriesWithoutBound: [LedgerConformance],
    /// Another attempt than the last can be followed.
    RetriesAnyAttempt: [LedgerConformance],
    /// An attempt that is under way is followed by another.
    RetriesRunningAttempt: [LedgerConformance],
    /// An attempt joins a later run.
    RetryIgnoresOthers: [LedgerConformance],
    /// An attempt gets the token of the one before.
    RetryReusesToken: [LedgerConformance],
    /// A claim of a job without a watermark makes one.
    ClaimMakesWatermark: [LedgerConformance],
    /// An instant starts twice.
    StartsDuplicates: [LedgerConformance],
    /// An instant before the watermark starts.
    StartsSuperseded: [LedgerConformance],
    /// An instant starts before its time.
    StartsEarly: [LedgerConformance],
    /// An open run is in the way of no other.
    IgnoresOverlap: [LedgerConformance],
    /// An instant that is skipped because of an open run is not decided.
    SkipDecidesNothing: [LedgerConformance],
    /// An instant that waits for an open run is skipped.
    QueueDecides: [LedgerConformance],
    /// A run that is replaced is not told.
    ReplacesSilently: [LedgerConformance],
    /// One run more than allowed is open.
    AllowsOneMore: [LedgerConformance],
    /// An orphan is in the way of the next run.
    CountsOrphans: [LedgerConformance],
    /// A run that waits for its next attempt is not open.
    ForgetsWaiting: [LedgerConformance],
    /// All runs get the same token.
    ConstantRunToken: [LedgerConformance],
    /// A claim checks and decides in two steps.
    CheckThenClaim: [LedgerConformance],
    /// A renewal revives a run that is over.
    RevivesOrphans: [LedgerConformance],
    /// A renewal extends whatever claim holds the run.
    RenewsRunWithoutCompare: [LedgerConformance],
    /// An end ends whatever claim holds the run.
    EndsRunWithoutCompare: [LedgerConformance],
    /// An end that is sent again is not recognised.
    ForgetsEnds: [LedgerConformance],
    /// A paused job starts.
    IgnoresPauses: [LedgerConformance],
    /// A claim that was planned before a change of orders is granted.
    IgnoresRevisions: [LedgerConformance],
    /// Revisions are counted from 1.
    RestartsRevisions: [LedgerConformance],
    /// A trigger that was carried out is listed again.
    RepeatsTriggers: [LedgerConformance],
}
