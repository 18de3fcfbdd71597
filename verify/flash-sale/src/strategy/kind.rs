//! The names and requirements of the strategies.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// A strategy for selling orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Read, pay and write without a lock. Oversells.
    None,
    /// Read, pay and write under a mutex in each process. Oversells with two processes.
    Mutex,
    /// Read, pay and write under `SET NX PX` and a plain `DEL`. Oversells if a section takes longer
    /// than the TTL.
    Setnx,
    /// Read, pay and write under the distributed lock. Oversells if a holder is paused past its
    /// lease.
    Lock,
    /// The distributed lock with a token that is checked only on the write. Oversells in the same case as
    /// [`Lock`](Self::Lock), but more rarely.
    LockWriteFence,
    /// The shop's own router: the distributed lock with a token that is checked on the read and on the write, and an intent
    /// before the charge. **Copy this one.**
    Fenced,
    /// Without a lock: `update … where stock >= q` and an intent, then the payment, then the order.
    Conditional,
    /// Without a distributed lock: a transaction that locks the row during the payment.
    ForUpdate,
    /// Without a lock: one row per unit, taken with `skip locked`. PostgreSQL only.
    Units,
    /// Without a lock: the stock in Redis, deducted by a script.
    RedisLua,
}

impl Strategy {
    /// All strategies.
    pub const ALL: [Self; 10] = [
        Self::None,
        Self::Mutex,
        Self::Setnx,
        Self::Lock,
        Self::LockWriteFence,
        Self::Fenced,
        Self::Conditional,
        Self::ForUpdate,
        Self::Units,
        Self::RedisLua,
    ];

    /// Returns the command-line name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Mutex => "mutex",
            Self::Setnx => "setnx",
            Self::Lock => "lock",
            Self::LockWriteFence => "lock-write-fence",
            Self::Fenced => "fenced",
            Self::Conditional => "conditional",
            Self::ForUpdate => "for-update",
            Self::Units => "units",
            Self::RedisLua => "redis-lua",
        }
    }

    /// Returns `true` if the route must hold the product's lock.
    #[must_use]
    pub const fn needs_lock(self) -> bool {
        matches!(self, Self::Lock | Self::LockWriteFence | Self::Fenced)
    }

    /// Returns `true` if the strategy sends its own commands to Redis.
    #[must_use]
    pub const fn needs_redis(self) -> bool {
        matches!(self, Self::Setnx | Self::RedisLua)
    }

    /// Returns `true` if the strategy needs PostgreSQL.
    #[must_use]
    pub const fn needs_postgres(self) -> bool {
        matches!(self, Self::Units)
    }

    /// Returns `true` if the strategy keeps its own stock count. A running shop cannot switch to
    /// it.
    #[must_use]
    pub const fn keeps_own_stock(self) -> bool {
        matches!(self, Self::Units | Self::RedisLua)
    }
}

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(name: &str) -> Result<Self, UnknownStrategy> {
        let known = Self::ALL.into_iter().find(|strategy| strategy.name() == name);
        known.ok_or_else(|| UnknownStrategy { name: name.into() })
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for an unknown strategy name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown strategy `{name}`: use one of {}", Strategy::ALL.map(Strategy::name).join(", "))]
pub struct UnknownStrategy {
    name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_on_the_command_line_and_in_json() {
        for strategy in Strategy::ALL {
            assert_eq!(strategy.name().parse(), Ok(strategy));
            assert_eq!(serde_json::to_value(strategy).unwrap(), strategy.name());
        }
        let unknown = "lock-read-fence".parse::<Strategy>().unwrap_err().to_string();
        assert!(unknown.contains("`lock-read-fence`") && unknown.contains("none, mutex, setnx"), "{unknown}");
    }
}
