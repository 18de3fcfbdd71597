//! What the two sales prove, or why they prove nothing.

use super::{Audit, thousands};
use std::fmt;

/// What was seen in both sales.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// The audit of the sale without the lock.
    pub without: &'a Audit,
    /// The audit of the sale with the lock.
    pub with: &'a Audit,
    /// How many stale writes the store refused in the sale with the lock.
    pub refused: u64,
    /// How many writes were made stale on purpose.
    pub stalls: u64,
}

/// Whether the sales went as they must.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Without the lock pieces were sold that do not exist; with it none were, and every stale write was refused.
    Proven {
        /// How many pieces the sale without the lock sold too many.
        oversold: i64,
        /// How many stale writes were refused in the sale with it.
        refused: u64,
    },
    /// An expectation does not hold.
    Broken(Vec<Broken>),
}

/// An expectation that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// The sale without the lock oversold nothing: a control that cannot fail shows nothing about the lock.
    ControlHeld,
    /// The sale with the lock oversold.
    Oversold {
        /// How many pieces.
        units: i64,
    },
    /// The books of the sale with the lock do not add up.
    Books {
        /// In how many places.
        breaches: usize,
    },
    /// A write that was stale on purpose was not refused.
    StaleWriteAccepted {
        /// How many were refused.
        refused: u64,
        /// How many were stale on purpose.
        stalls: u64,
    },
    /// More writes were refused than were stale on purpose: the fence saved the stock, but it was the lock that let
    /// two shops in at the same time. Without this rule a lock that locks nothing would pass.
    LetSeveralIn {
        /// How many were refused.
        refused: u64,
        /// How many were stale on purpose.
        stalls: u64,
    },
}

impl Verdict {
    /// Judges.
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

    /// Whether the sales went as they must.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        matches!(self, Self::Proven { .. })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Proven { oversold, refused } => {
                write!(f, "Without the lock the shops sold {} that did not exist; ", pieces(*oversold))?;
                write!(f, "with it they sold none too many")?;
                match refused {
                    0 => write!(f, "."),
                    1 => write!(f, ", and the store refused the 1 write that came too late."),
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
                "the sale without the lock oversold nothing, so it shows nothing about the lock (raise --buyers or \
                 --orders)"
            ),
            Self::Oversold { units } => {
                write!(f, "the sale with the lock sold {} that did not exist", pieces(*units))
            }
            Self::Books { breaches } => {
                let places = if *breaches == 1 { "place" } else { "places" };
                write!(f, "the books of the sale with the lock do not add up in {breaches} {places}")
            }
            Self::StaleWriteAccepted { refused, stalls } => {
                write!(f, "of {stalls} writes that came too late the store refused only {refused}")
            }
            Self::LetSeveralIn { refused, stalls } => write!(
                f,
                "the store refused {refused} late writes where {stalls} were to be late, so the lock let several shops \
                 in at the same time (or this machine slept for longer than a lease)"
            ),
        }
    }
}

fn pieces(count: i64) -> String {
    match count {
        1 => "1 piece".into(),
        count => format!("{} pieces", thousands(count.unsigned_abs())),
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
    fn a_control_that_cannot_fail_fails_the_run() {
        assert_eq!(broken(&oversold(0), &oversold(0), 5), [Broken::ControlHeld]);
        assert_eq!(broken(&oversold(9), &oversold(0), 5), []);
    }

    #[test]
    fn the_verdict_is_one_plain_sentence() {
        let verdict = |oversold, refused| Verdict::Proven { oversold, refused }.to_string();
        assert_eq!(
            verdict(4_002, 5),
            "Without the lock the shops sold 4,002 pieces that did not exist; with it they sold none too many, and the \
             store refused all 5 writes that came too late."
        );
        assert_eq!(
            verdict(1, 0),
            "Without the lock the shops sold 1 piece that did not exist; with it they sold none too many."
        );
        let broken = vec![Broken::Oversold { units: 2 }, Broken::Books { breaches: 1 }];
        assert_eq!(
            Verdict::Broken(broken).to_string(),
            "This run failed: the sale with the lock sold 2 pieces that did not exist; the books of the sale with the \
             lock do not add up in 1 place."
        );
    }

    #[test]
    fn a_lock_that_lets_one_piece_slip_fails_the_run() {
        assert_eq!(broken(&oversold(9), &oversold(1), 5), [Broken::Oversold { units: 1 }]);
    }

    #[test]
    fn books_that_do_not_add_up_fail_the_run() {
        let with =
            Audit { breaches: vec![Breach::NotAcknowledged { order: "1".into() }], ..Audit::default() };
        assert_eq!(broken(&oversold(9), &with, 5), [Broken::Books { breaches: 1 }]);
    }

    #[test]
    fn a_late_write_that_was_not_refused_fails_the_run() {
        let expected = [Broken::StaleWriteAccepted { refused: 4, stalls: 5 }];
        assert_eq!(broken(&oversold(9), &oversold(0), 4), expected);
    }

    #[test]
    fn a_lock_that_locks_nothing_fails_the_run_although_the_fence_saves_the_stock() {
        let expected = [Broken::LetSeveralIn { refused: 6, stalls: 5 }];
        assert_eq!(broken(&oversold(9), &oversold(0), 6), expected);
    }
}
