//! The check of every run: sections of one name never overlap across processes, and each has a higher token than the
//! previous one.

use super::Section;
use std::fmt;

/// A violated guarantee of a lock.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    /// The second section started before the first one ended.
    Overlap(Box<[Section; 2]>),
    /// The token of the second section is not above that of the first.
    Token(Box<[Section; 2]>),
}

/// Checks the sections of all processes, and sorts them by name and time.
pub(crate) fn check(sections: &mut [Section]) -> Result<(), Violation> {
    sections.sort_unstable_by_key(|section| (section.name, section.enter, section.leave, section.token));
    for pair in sections.windows(2) {
        let both @ [first, second] = [pair[0], pair[1]];
        if first.name != second.name {
            continue;
        }
        if second.enter < first.leave {
            return Err(Violation::Overlap(both.into()));
        }
        if first.token > 0 && second.token <= first.token {
            return Err(Violation::Token(both.into()));
        }
    }
    Ok(())
}

impl std::error::Error for Violation {}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (broken, [first, second]) = match self {
            Self::Overlap(both) => ("EXCLUSION VIOLATED: two tasks held one lock at once", &**both),
            Self::Token(both) => ("TOKEN ORDER VIOLATED: the later section has no higher token", &**both),
        };
        write!(f, "{broken}: {first:?}, {second:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(process: u64, name: u64, token: u64, enter: u64, leave: u64) -> Section {
        Section { process, task: 0, name, token, asked: 0, enter, leave, done: leave + 1 }
    }

    #[test]
    fn consecutive_sections_are_accepted_in_any_record_order() {
        let mut sections = [section(1, 0, 8, 20, 30), section(0, 0, 7, 10, 20), section(0, 1, 1, 15, 25)];
        assert_eq!(check(&mut sections), Ok(()));
    }

    #[test]
    fn overlap_of_two_processes_is_found() {
        let (first, second) = (section(0, 0, 7, 10, 20), section(1, 0, 8, 19, 30));
        assert_eq!(check(&mut [second, first]), Err(Violation::Overlap([first, second].into())));
    }

    #[test]
    fn token_that_does_not_rise_is_found() {
        let (first, second) = (section(0, 0, 7, 10, 20), section(1, 0, 7, 20, 30));
        assert_eq!(check(&mut [first, second]), Err(Violation::Token([first, second].into())));
    }
}
