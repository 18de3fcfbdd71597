//! Histories: the windows in which holds were valid, and a check for violations.

use lock_core::{FencingToken, LockName, clock::Moment};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The holds of a test run. All moments must come from one clock.
///
/// A window is the time during which a holder considers its hold valid: from the moment the grant
/// returned to the local deadline, or to the release if that was earlier. Two windows of one lock
/// must not overlap, and their tokens must increase. A re-entry is part of its hold and is not
/// recorded.
///
/// ```
/// use lock_core::{FencingToken, LockName, clock::Moment};
/// use lock_testkit::History;
///
/// let (history, name) = (History::new(), LockName::new("stock:42")?);
/// let at = |seconds: u64| Moment::from_micros(seconds * 1_000_000);
/// let first = history.granted(&name, FencingToken::new(7), at(0), at(30));
/// history.ended(first, at(10));
/// history.granted(&name, FencingToken::new(9), at(10), at(40));
/// assert_eq!(history.check(), []);
/// # Ok::<(), lock_core::NameError>(())
/// ```
#[derive(Debug, Default)]
pub struct History {
    windows: Mutex<Vec<Window>>,
}

/// A hold and the time during which it was valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The lock.
    pub name: LockName,
    /// The token of the hold.
    pub token: FencingToken,
    /// The moment at which the grant returned.
    pub from: Moment,
    /// The moment at which the hold ceased to be valid.
    pub until: Moment,
}

/// The key of a hold in a [`History`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HoldKey(usize);

/// A violation of a lock's guarantees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// Two holds of one lock were valid at the same time.
    Overlap {
        /// The hold that was granted first.
        first: Window,
        /// The hold that was granted while the first one was valid.
        second: Window,
    },
    /// A later grant has a smaller token.
    TokenFell {
        /// The earlier grant, with the greater token.
        earlier: Window,
        /// The later grant.
        later: Window,
    },
    /// Two holds of one lock have the same token.
    TokenRepeated {
        /// The earlier grant.
        earlier: Window,
        /// The later grant.
        later: Window,
    },
}

impl History {
    /// Creates an empty history.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records a new hold that is valid until `until`, unless it is extended or ended.
    pub fn granted(&self, name: &LockName, token: FencingToken, from: Moment, until: Moment) -> HoldKey {
        let mut windows = self.lock();
        windows.push(Window { name: name.clone(), token, from, until });
        HoldKey(windows.len() - 1)
    }

    /// Records a renewal: the hold is valid at least until `until`.
    pub fn extended(&self, hold: HoldKey, until: Moment) {
        let mut windows = self.lock();
        let window = &mut windows[hold.0];
        window.until = window.until.max(until);
    }

    /// Records the end of a hold by release or loss. An end never extends the window.
    pub fn ended(&self, hold: HoldKey, at: Moment) {
        let mut windows = self.lock();
        let window = &mut windows[hold.0];
        window.until = window.until.min(at);
    }

    /// Returns the windows in the order of recording.
    #[must_use]
    pub fn windows(&self) -> Vec<Window> {
        self.lock().clone()
    }

    /// Returns all violations, grouped by lock, then by kind, and in the order of the grants.
    #[must_use]
    pub fn check(&self) -> Vec<Violation> {
        let mut by_name: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for window in self.windows() {
            by_name.entry(window.name.clone()).or_default().push(window);
        }
        let mut found = Vec::new();
        for mut windows in by_name.into_values() {
            windows.sort_by_key(|window| window.from);
            overlaps(&windows, &mut found);
            falls(&windows, &mut found);
            repeats(&windows, &mut found);
        }
        found
    }

    /// Panics with a list of all violations if there are any.
    ///
    /// # Panics
    /// Panics if [`check`](History::check) finds a violation.
    pub fn assert_clean(&self) {
        let found = self.check();
        let lines: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "{} violation(s):\n{}", found.len(), lines.join("\n"));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Window>> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Compares each window with the earlier one that ends last. An empty window is never valid.
fn overlaps(windows: &[Window], found: &mut Vec<Violation>) {
    let mut longest: Option<&Window> = None;
    for second in windows.iter().filter(|window| window.from < window.until) {
        if let Some(first) = longest.filter(|first| first.until > second.from) {
            found.push(Violation::Overlap { first: first.clone(), second: second.clone() });
        }
        if longest.is_none_or(|first| first.until < second.until) {
            longest = Some(second);
        }
    }
}

/// Compares each window with the earlier one that has the highest token.
fn falls(windows: &[Window], found: &mut Vec<Violation>) {
    let mut greatest: Option<&Window> = None;
    for later in windows {
        match greatest.filter(|earlier| earlier.token > later.token) {
            Some(earlier) => {
                found.push(Violation::TokenFell { earlier: earlier.clone(), later: later.clone() })
            }
            None => greatest = Some(later),
        }
    }
}

/// Compares each window with all earlier ones.
fn repeats(windows: &[Window], found: &mut Vec<Violation>) {
    let mut seen: BTreeMap<FencingToken, &Window> = BTreeMap::new();
    for later in windows {
        if let Some(earlier) = seen.insert(later.token, later) {
            found.push(Violation::TokenRepeated { earlier: earlier.clone(), later: later.clone() });
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} from {:?} to {:?}", self.token, self.from, self.until)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overlap { first, second } => {
                write!(f, "{}: two valid holds at once: {first} and {second}", first.name)
            }
            Self::TokenFell { earlier, later } => {
                write!(f, "{}: the token decreased: {earlier}, then {later}", earlier.name)
            }
            Self::TokenRepeated { earlier, later } => {
                write!(f, "{}: a token was issued twice: {earlier} and {later}", earlier.name)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Moment {
        Moment::from_micros(seconds * 1_000_000)
    }

    /// Records holds of one lock as `(token, from, until)`.
    fn of(holds: &[(u64, u64, u64)]) -> History {
        let (history, name) = (History::new(), LockName::new("x").unwrap());
        for &(token, from, until) in holds {
            history.granted(&name, FencingToken::new(token), s(from), s(until));
        }
        history
    }

    fn tokens(found: &[Violation]) -> Vec<(&'static str, u64, u64)> {
        let words = |violation: &Violation| match violation {
            Violation::Overlap { first, second } => ("overlap", first.token.get(), second.token.get()),
            Violation::TokenFell { earlier, later } => ("fell", earlier.token.get(), later.token.get()),
            Violation::TokenRepeated { earlier, later } => {
                ("repeated", earlier.token.get(), later.token.get())
            }
        };
        found.iter().map(words).collect()
    }

    #[test]
    fn successive_holds_are_clean_in_any_order_of_recording() {
        assert_eq!(of(&[(1, 0, 10), (2, 10, 20), (5, 25, 30)]).check(), []);
        let shuffled = of(&[(5, 25, 30), (1, 0, 10), (2, 10, 20)]);
        assert_eq!(shuffled.check(), []);
        shuffled.assert_clean();
    }

    #[test]
    fn two_valid_holds_at_once_are_a_violation() {
        assert_eq!(tokens(&of(&[(1, 0, 10), (2, 9, 20)]).check()), [("overlap", 1, 2)]);
    }

    #[test]
    fn a_long_hold_violates_each_hold_it_covers() {
        let found = of(&[(1, 0, 100), (2, 10, 20), (3, 30, 40), (4, 100, 110)]).check();
        assert_eq!(tokens(&found), [("overlap", 1, 2), ("overlap", 1, 3)]);
    }

    #[test]
    fn a_lower_token_is_compared_with_the_highest_before_it() {
        assert_eq!(
            tokens(&of(&[(5, 0, 1), (3, 1, 2), (4, 2, 3), (6, 3, 4)]).check()),
            [("fell", 5, 3), ("fell", 5, 4)]
        );
    }

    #[test]
    fn a_token_repeated_later_is_a_violation() {
        assert_eq!(tokens(&of(&[(5, 0, 1), (5, 1, 2)]).check()), [("repeated", 5, 5)]);
        assert_eq!(
            tokens(&of(&[(5, 0, 1), (6, 1, 2), (5, 2, 3)]).check()),
            [("fell", 6, 5), ("repeated", 5, 5)]
        );
    }

    #[test]
    fn different_locks_are_independent() {
        let (history, x, y) = (History::new(), LockName::new("x").unwrap(), LockName::new("y").unwrap());
        history.granted(&x, FencingToken::new(5), s(0), s(30));
        history.granted(&y, FencingToken::new(5), s(0), s(30));
        assert_eq!(history.check(), []);
    }

    #[test]
    fn an_end_shortens_a_window_and_a_renewal_extends_it() {
        let (history, x) = (History::new(), LockName::new("x").unwrap());
        let first = history.granted(&x, FencingToken::new(1), s(0), s(30));
        history.ended(first, s(10));
        let second = history.granted(&x, FencingToken::new(2), s(10), s(20));
        assert_eq!(history.check(), []);
        history.extended(second, s(50));
        history.extended(second, s(40));
        history.granted(&x, FencingToken::new(3), s(45), s(60));
        assert_eq!(tokens(&history.check()), [("overlap", 2, 3)]);
        history.ended(second, s(44));
        history.ended(second, s(70));
        assert_eq!(history.check(), [], "the end must not extend the window");
    }

    #[test]
    fn an_empty_window_overlaps_nothing_but_its_token_counts() {
        assert_eq!(of(&[(1, 0, 10), (2, 5, 5), (3, 10, 20)]).check(), []);
        assert_eq!(tokens(&of(&[(3, 0, 10), (2, 5, 4)]).check()), [("fell", 3, 2)]);
    }

    #[test]
    #[should_panic(expected = "x: two valid holds at once: #1 from 0.000000 s to 10.000000 s")]
    fn violations_cause_a_panic_that_lists_them() {
        of(&[(1, 0, 10), (2, 9, 20)]).assert_clean();
    }
}
