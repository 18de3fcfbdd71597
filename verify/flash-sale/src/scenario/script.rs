//! The table of scenarios.

use crate::strategy::Strategy;
use std::{fmt, str::FromStr};

/// A part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// A scenario.
    Scenario(&'static Script),
    /// S10: the scheduler while its leader is killed.
    Jobs,
    /// The stall under an open model.
    Stall,
    /// The strategies under the same load.
    Comparison,
}

/// A scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Script {
    /// Id of the scenario: `S0` to `S9`, with a letter for a variant.
    pub id: &'static str,
    /// Short description.
    pub title: &'static str,
    /// Strategy of the shops.
    pub strategy: Strategy,
    /// Number of shops.
    pub shops: u32,
    /// Number of products, which share the stock equally.
    pub products: u32,
    /// Faults during the scenario.
    pub trouble: Trouble,
    /// Expected verdict.
    pub verdict: Verdict,
}

/// The faults of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// No fault.
    None,
    /// Every payment takes longer than the TTL of an unrenewed lock.
    SlowPayments,
    /// The holder is stopped between its read and its write for longer than its lease.
    Pause,
    /// Like `Pause`, but the holder is resumed while the next holder is between its read and its write.
    PauseIntoSection,
    /// Both pauses, one after the other, and then a forced release of the lock during the payment.
    BothPauses,
    /// The holder is killed between its read and its write.
    Kill,
    /// Redis restarts without its data. One shop is then disconnected from it.
    RedisTrouble,
    /// Clients abort their requests and repeat them.
    Aborts,
}

/// The expected verdict of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// More units are sold than exist. A control that does not oversell fails the run.
    Oversells,
    /// No unit is oversold.
    Exact,
    /// No unit is oversold, and at least 95 % of the stock is sold. A shop that refuses every order
    /// does not pass.
    SellsOut,
}

const HOT: Script = Script {
    id: "",
    title: "",
    strategy: Strategy::Fenced,
    shops: 4,
    products: 1,
    trouble: Trouble::None,
    verdict: Verdict::SellsOut,
};

/// The scenarios, in the order in which they run.
pub static SCRIPTS: [Script; 16] = [
    Script {
        id: "S0",
        title: "No lock: read, pay, write",
        strategy: Strategy::None,
        verdict: Verdict::Oversells,
        ..HOT
    },
    Script { id: "S1a", title: "In-process mutex, one shop", strategy: Strategy::Mutex, shops: 1, ..HOT },
    Script {
        id: "S1",
        title: "In-process mutex, four shops",
        strategy: Strategy::Mutex,
        verdict: Verdict::Oversells,
        ..HOT
    },
    Script {
        id: "S2",
        title: "SET NX with a TTL, and payments slower than the TTL",
        strategy: Strategy::Setnx,
        trouble: Trouble::SlowPayments,
        verdict: Verdict::Oversells,
        ..HOT
    },
    Script { id: "S3", title: "Lock, one hot product", strategy: Strategy::Lock, ..HOT },
    Script { id: "S3b", title: "Lock, 100 products", strategy: Strategy::Lock, products: 100, ..HOT },
    Script {
        id: "S4",
        title: "Lock without fencing, holder stopped for longer than its lease",
        strategy: Strategy::Lock,
        trouble: Trouble::Pause,
        verdict: Verdict::Oversells,
        ..HOT
    },
    Script {
        id: "S4c",
        title: "Token checked on the write only, stale write inside the next section",
        strategy: Strategy::LockWriteFence,
        trouble: Trouble::PauseIntoSection,
        verdict: Verdict::Oversells,
        ..HOT
    },
    Script {
        id: "S5",
        title: "Token checked on the read and on the write, both pauses, forced release",
        trouble: Trouble::BothPauses,
        ..HOT
    },
    Script {
        id: "S6",
        title: "Holder killed between read and write",
        trouble: Trouble::Kill,
        verdict: Verdict::Exact,
        ..HOT
    },
    Script {
        id: "S7",
        title: "Redis restarted empty, then one shop disconnected from it",
        trouble: Trouble::RedisTrouble,
        verdict: Verdict::Exact,
        ..HOT
    },
    Script {
        id: "S8",
        title: "Clients abort and repeat their requests",
        trouble: Trouble::Aborts,
        verdict: Verdict::Exact,
        ..HOT
    },
    Script { id: "S9a", title: "No lock: conditional update", strategy: Strategy::Conditional, ..HOT },
    Script { id: "S9b", title: "No lock: row locked by a transaction", strategy: Strategy::ForUpdate, ..HOT },
    Script {
        id: "S9c",
        title: "No lock: stock counted by a script in Redis",
        strategy: Strategy::RedisLua,
        ..HOT
    },
    Script { id: "S9d", title: "No lock: one row per unit, skip locked", strategy: Strategy::Units, ..HOT },
];

impl Part {
    /// Returns all parts, in the order in which they run.
    pub fn every() -> impl Iterator<Item = Self> {
        SCRIPTS.iter().map(Self::Scenario).chain([Self::Jobs, Self::Stall, Self::Comparison])
    }

    /// Returns the command-line name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Scenario(script) => script.id,
            Self::Jobs => "S10",
            Self::Stall => "stall",
            Self::Comparison => "comparison",
        }
    }
}

impl FromStr for Part {
    type Err = UnknownPart;

    fn from_str(name: &str) -> Result<Self, UnknownPart> {
        let known = Self::every().find(|part| part.name().eq_ignore_ascii_case(name));
        known.ok_or_else(|| UnknownPart { name: name.into() })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Oversells => "sells units twice",
            Self::Exact => "0 sold twice",
            Self::SellsOut => "0 sold twice, ≥ 95 % sold",
        })
    }
}

/// The error for an unknown part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown part `{name}`: use {}", Part::every().map(|part| part.name()).collect::<Vec<_>>().join(", "))]
pub struct UnknownPart {
    name: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_part_is_found_by_its_name() {
        for part in Part::every() {
            assert_eq!(part.name().parse(), Ok(part));
        }
        assert_eq!(
            Part::every().map(|part| part.name()).collect::<BTreeSet<_>>().len(),
            Part::every().count()
        );
        assert!("S11".parse::<Part>().unwrap_err().to_string().contains("S0, S1a, S1"));
    }
}
