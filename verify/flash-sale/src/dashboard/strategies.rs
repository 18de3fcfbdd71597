//! The strategies offered by the page, with their descriptions.

use super::snapshot::StrategyInfo;
use crate::strategy::Strategy;

/// The kind of lock store, which determines the available strategies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Locks {
    /// The memory of one process.
    Memory,
    /// Redis.
    Redis,
}

/// Returns the strategies that a running shop can switch to.
pub(super) fn offered(locks: Locks) -> Vec<StrategyInfo> {
    Strategy::ALL
        .into_iter()
        .filter(|strategy| !strategy.keeps_own_stock() && (locks == Locks::Redis || !strategy.needs_redis()))
        .map(|strategy| {
            let (about, exact) = describe(strategy);
            StrategyInfo { name: strategy.name().into(), about: about.into(), exact }
        })
        .collect()
}

fn describe(strategy: Strategy) -> (&'static str, bool) {
    match strategy {
        Strategy::None => ("No lock. Concurrent orders overwrite each other's stock.", false),
        Strategy::Mutex => ("A mutex inside each process. It does not exclude other processes.", false),
        Strategy::Setnx => (
            "SET NX with a short TTL and a plain DEL. A payment slower than the TTL outlives the lock.",
            false,
        ),
        Strategy::Lock => (
            "The distributed lock without fencing. A server that pauses past its lease overwrites newer stock.",
            false,
        ),
        Strategy::LockWriteFence => (
            "The token is checked only on the write. A stale write can land between a newer holder's read and write.",
            false,
        ),
        Strategy::Fenced => (
            "The shop: the distributed lock, and a database that checks its token on the read and on the write.",
            true,
        ),
        Strategy::Conditional => (
            "One conditional statement, no lock. This is enough if the stock is one row of one database.",
            true,
        ),
        Strategy::ForUpdate => ("A row lock of the database, held while the payment runs.", true),
        Strategy::Units => ("One row for each unit, taken with SKIP LOCKED.", true),
        Strategy::RedisLua => ("The stock in Redis, deducted by a script.", true),
    }
}
