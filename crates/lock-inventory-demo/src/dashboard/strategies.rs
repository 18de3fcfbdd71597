//! The strategies that the page offers, each with a sentence.

use super::snapshot::StrategyInfo;
use crate::strategy::Strategy;

/// The place of the locks, as far as strategies care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Locks {
    /// The memory of one process.
    Memory,
    /// Redis.
    Redis,
}

/// Returns those that a running shop can switch to.
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
        Strategy::None => ("No lock. Orders that overlap write the same new stock.", false),
        Strategy::Mutex => ("A mutex inside each process. Two processes do not see each other's.", false),
        Strategy::Setnx => {
            ("SET NX with a short TTL and a plain DEL. A payment slower than the TTL loses the lock.", false)
        }
        Strategy::Lock => (
            "The distributed lock, no fencing. A server that pauses past its lease writes over the next one.",
            false,
        ),
        Strategy::LockWriteFence => (
            "The token is checked on the write only. A stale write lands between another's read and write.",
            false,
        ),
        Strategy::Fenced => {
            ("The distributed lock; the store checks its token on the read and on the write.", true)
        }
        Strategy::Conditional => {
            ("One conditional update, no lock: enough where the stock is one row of one database.", true)
        }
        Strategy::ForUpdate => ("A row lock of the database, held while the payment runs.", true),
        Strategy::Units => ("One row for each unit, taken with SKIP LOCKED.", true),
        Strategy::RedisLua => ("The stock in Redis, deducted by a script.", true),
    }
}
