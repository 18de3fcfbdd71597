//! The order in which a thread may lock the mutexes of this crate.

/// A mutex with the rank that its type names, for example `Mutex<rank::Entry, EntryState>`.
pub(crate) trait Ranked {
    const RANK: Rank;
}

macro_rules! ranks {
    ($($(#[$doc:meta])* $mutex:ident,)+) => {
        /// The ranks. A thread that holds a mutex locks only mutexes of later ranks, so threads cannot deadlock.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Rank {
            $($(#[$doc])* $mutex,)+
        }

        impl Rank {
            pub(super) const ALL: &[Self] = &[$(Self::$mutex),+];
        }

        $(
            $(#[$doc])*
            pub(crate) enum $mutex {}

            impl Ranked for $mutex {
                const RANK: Rank = Rank::$mutex;
            }
        )+
    };
}

ranks! {
    /// A shard of a factory's table of lock names.
    Shard,
    /// The state of a lock name: its machine, and the slots of waiting futures.
    Entry,
    /// The wake-up times of the entries.
    Schedule,
    /// The timeouts of operations in progress.
    Deadlines,
    /// The events that are deferred in an entry without locking its state.
    DeferredEvents,
    /// The wakers of tasks that wait for a hold to end.
    Wakers,
    /// An operation, until it is answered.
    Submitted,
    /// The warnings of a factory that one line of its log sums up.
    Digest,
    /// The runtimes that have a worker.
    RuntimesWithWorker,
    /// The runtimes that have ended.
    RuntimesEnded,
    /// The work that is queued for the workers.
    Work,
    /// The workers to notify of work.
    Workers,
    /// The alarms of a factory.
    Alarms,
    /// The timer of a timekeeper.
    Alarm,
    /// The alarms that the backstop thread watches.
    Backstop,
    /// The card of a process, with its notes.
    Card,
    /// The latest health check of the store.
    LatestCheck,
    /// The leases that a quorum requested from its nodes. This and all later ranks are mutexes inside stores. The
    /// driver calls a store only while it holds no mutex.
    QuorumLeases,
    /// One lease of a quorum.
    QuorumLease,
    /// The clocks of quorum nodes.
    QuorumClocks,
    /// The quorum nodes that do not answer.
    QuorumSilence,
    /// The bursts of wake-ups from quorum nodes.
    QuorumWakes,
    /// The named in-memory stores.
    NamedStores,
    /// The contents of an in-memory store.
    SlotMap,
    /// The cards in an in-memory store.
    CardMap,
    /// The subscriptions to names.
    Subscriptions,
    /// The renewals that wait for the next call of an [`AsyncBackend`](crate::backend::AsyncBackend).
    Renewals,
    /// The sender of a reply to a future.
    Answer,
}
