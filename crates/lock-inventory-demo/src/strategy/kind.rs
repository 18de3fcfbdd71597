//! The names of the strategies, and what each needs.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// A way to sell an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Read, pay, write. It oversells.
    None,
    /// The same under a mutex of the process. It oversells with two processes.
    Mutex,
    /// The same under `SET NX PX` and a plain `DEL`. It oversells when a section takes longer than the TTL.
    Setnx,
    /// The same under the distributed lock. It oversells when a holder is paused past its lease.
    Lock,
    /// The distributed lock, and a token that is checked only on the write. It oversells in the same case, more rarely.
    LockWriteFence,
    /// The distributed lock, and a token that is checked on the read and on the write. **The one to copy.**
    Fenced,
    /// No lock: `update … where stock >= q`, then the payment, then the order.
    Conditional,
    /// No lock: a transaction that locks the row for the time of the payment.
    ForUpdate,
    /// No lock: one row per piece, taken with `skip locked`. PostgreSQL only.
    Units,
    /// No lock: the stock in Redis, counted by a script.
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

    /// Returns the name on the command line.
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

    /// Returns whether the route has to hold the product's lock.
    #[must_use]
    pub const fn needs_lock(self) -> bool {
        matches!(self, Self::Lock | Self::LockWriteFence | Self::Fenced)
    }

    /// Returns whether it sends commands of its own to Redis.
    #[must_use]
    pub const fn needs_redis(self) -> bool {
        matches!(self, Self::Setnx | Self::RedisLua)
    }

    /// Returns whether it needs PostgreSQL.
    #[must_use]
    pub const fn needs_postgres(self) -> bool {
        matches!(self, Self::Units)
    }

    /// Returns whether it counts the stock in a place of its own, so that a shop cannot change to it between two orders.
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

/// A text that names no strategy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no strategy `{name}`: use one of {}", Strategy::ALL.map(Strategy::name).join(", "))]
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
