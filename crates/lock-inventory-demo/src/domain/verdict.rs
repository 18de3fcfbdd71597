//! The verdict on two sales, without and with the lock.

use super::{Audit, thousands};
use std::fmt;

/// The observations of both sales.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// Audit of the sale without the lock.
    pub without: &'a Audit,
    /// Audit of the sale with the lock.
    pub with: &'a Audit,
    /// Number of stale writes that the store refused in the sale with the lock.
    pub refused: u64,
    /// Number of deliberately stale writes.
    pub stalls: u64,
}

/// The verdict on both sales.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The sale without the lock sold units that do not exist. The sale with the lock did not, and all its stale
    /// writes were refused.
    Proven {
        /// Number of units that the sale without the lock oversold.
        oversold: i64,
        /// Number of stale writes that were refused in the sale with the lock.
        refused: u64,
    },
    /// Expectations that do not hold.
    Broken(Vec<Broken>),
}

/// An expectation that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// The sale without the lock did not oversell, so the run proves nothing about the lock.
    ControlHeld,
    /// The sale with the lock oversold.
    Oversold {
        /// Number of oversold units.
        units: i64,
    },
    /// The books of the sale with the lock are inconsistent.
    Books {
        /// Number of inconsistencies.
        breaches: usize,
    },
    /// A deliberately stale write was not refused.
    StaleWriteAccepted {
        /// Number of refused writes.
        refused: u64,
        /// Number of deliberately stale writes.
        stalls: u64,
    },
    /// More writes were refused than were deliberately stale. The lock admitted two shops at the
    /// same time, and only the fence protected the stock. Without this rule, a lock without
    /// exclusion would pass.
    LetSeveralIn {
        /// Number of refused writes.
        refused: u64,
        /// Number of deliberately stale writes.
        stalls: u64,
    },
}

impl Verdict {
    /// Judges the sales.
    #[must_use]
    pub fn of(seen: Evidence<'_>) -> Self {
        let mut broken = Vec::new();
        if seen.without.oversold == 0 {
            broken.push(Broken::ControlHeld);
        }
        if seen.with.oversold > 0 {
            broken.push(Broken::Oversold { units: seen.with.oversold });
        }
        if !seen.with.breaches.is_empty() {
            broken.push(Broken::Books { breaches: seen.with.breaches.len() });
        }
        if seen.refused < seen.stalls {
            broken.push(Broken::StaleWriteAccepted { refused: seen.refused, stalls: seen.stalls });
        }
        if seen.refused > seen.stalls {
            broken.push(Broken::LetSeveralIn { refused: seen.refused, stalls: seen.stalls });
        }
        match broken.is_empty() {
            true => Self::Proven { oversold: seen.without.oversold, refused: seen.refused },
            false => Self::Broken(broken),
        }
    }

    /// Returns `true` if every expectation holds.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        matches!(self, Self::Proven { .. })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Proven { oversold, refused } => {
                write!(f, "Without the lock, the shops sold {} that did not exist. ", pieces(*oversold))?;
                write!(f, "With the lock, nothing was oversold")?;
                match refused {
                    0 => write!(f, "."),
                    1 => write!(f, ", and the store refused the one write that came too late."),
                    n => write!(f, ", and the store refused all {n} writes that came too late."),
                }
            }
            Self::Broken(broken) => {
                write!(f, "This run failed: ")?;
                for (index, broken) in broken.iter().enumerate() {
                    write!(f, "{}{broken}", if index == 0 { "" } else { "; " })?;
                }
                write!(f, ".")
            }
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ControlHeld => write!(
                f,
                "the sale without the lock did not oversell either, so this run proves nothing about the lock (raise --buyers \
                 or --orders)"
            ),
            Self::Oversold { units } => {
                write!(f, "the sale with the lock sold {} that did not exist", pieces(*units))
            }
            Self::Books { breaches } => {
                let inconsistencies = if *breaches == 1 { "inconsistency" } else { "inconsistencies" };
                write!(f, "the audit of the sale with the lock found {breaches} {inconsistencies}")
            }
            Self::StaleWriteAccepted { refused, stalls } => {
                write!(f, "the store refused only {refused} of {stalls} writes that came too late")
            }
            Self::LetSeveralIn { refused, stalls } => write!(
                f,
                "the store refused {refused} late writes, but only {stalls} were delayed deliberately: either the lock admitted \
                 two shops at once, or this machine was suspended for longer than a lease"
            ),
        }
    }
}

fn pieces(count: i64) -> String {
    match count {
        1 => "1 unit".into(),
        count => format!("{} units", thousands(count.unsigned_abs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Breach;

    fn oversold(units: i64) -> Audit {
        Audit { oversold: units, ..Audit::default() }
    }

    fn broken(without: &Audit, with: &Audit, refused: u64) -> Vec<Broken> {
        match Verdict::of(Evidence { without, with, refused, stalls: 5 }) {
            Verdict::Proven { .. } => Vec::new(),
            Verdict::Broken(broken) => broken,
        }
    }

    #[test]
    fn a_control_without_overselling_fails_the_run() {
        assert_eq!(broken(&oversold(0), &oversold(0), 5), [Broken::ControlHeld]);
        assert_eq!(broken(&oversold(9), &oversold(0), 5), []);
    }

    #[test]
    fn the_verdict_is_one_sentence() {
        let verdict = |oversold, refused| Verdict::Proven { oversold, refused }.to_string();
        assert_eq!(
            verdict(4_002, 5),
            "Without the lock, the shops sold 4,002 units that did not exist. With the lock, nothing was oversold, and \
             the store refused all 5 writes that came too late."
        );
        assert_eq!(
            verdict(1, 0),
            "Without the lock, the shops sold 1 unit that did not exist. With the lock, nothing was oversold."
        );
        let broken = vec![Broken::Oversold { units: 2 }, Broken::Books { breaches: 1 }];
        assert_eq!(
            Verdict::Broken(broken).to_string(),
            "This run failed: the sale with the lock sold 2 units that did not exist; the audit of the sale with the \
             lock found 1 inconsistency."
        );
    }

    #[test]
    fn one_oversold_unit_with_the_lock_fails_the_run() {
        assert_eq!(broken(&oversold(9), &oversold(1), 5), [Broken::Oversold { units: 1 }]);
    }

    #[test]
    fn inconsistent_books_fail_the_run() {
        let with =
            Audit { breaches: vec![Breach::NotAcknowledged { order: "1".into() }], ..Audit::default() };
        assert_eq!(broken(&oversold(9), &with, 5), [Broken::Books { breaches: 1 }]);
    }

    #[test]
    fn an_accepted_late_write_fails_the_run() {
        let expected = [Broken::StaleWriteAccepted { refused: 4, stalls: 5 }];
        assert_eq!(broken(&oversold(9), &oversold(0), 4), expected);
    }

    #[test]
    fn a_lock_without_exclusion_fails_the_run_despite_the_fence() {
        let expected = [Broken::LetSeveralIn { refused: 6, stalls: 5 }];
        assert_eq!(broken(&oversold(9), &oversold(0), 6), expected);
    }
}
