//! The card of a process in the store, which shows people which process holds a lock.

use crate::{ids::LeaseNumber, time::UtcTime};
use std::{collections::BTreeMap, fmt};

/// The host and program of a process, as that process wrote them to the store.
///
/// Any program with access to the store can write a card, so
/// [`LockFactory::inspect`](crate::LockFactory::inspect) truncates its texts and escapes control characters.
/// Do not base decisions on a card.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessCard {
    /// The name of the host. Empty if the system does not provide it.
    pub host: String,
    /// The process id.
    pub pid: u32,
    /// The name of the program: the name of the executable, unless
    /// [`LockFactoryBuilder::program`](crate::LockFactoryBuilder::program) set another.
    pub program: String,
    /// The version of the program, as given to [`LockFactoryBuilder::program`](crate::LockFactoryBuilder::program).
    pub version: Option<String>,
    /// The time at which the factory was created, according to its host's wall clock. It is printed in UTC, in RFC 3339
    /// format.
    pub since: UtcTime,
    /// The process's notes on its holds, keyed by lease number. See
    /// [`LockGuard::note`](crate::LockGuard::note).
    pub notes: BTreeMap<LeaseNumber, String>,
}

impl ProcessCard {
    /// The maximum length of a text on a card, in characters. Longer texts are truncated.
    pub const MAX_TEXT_CHARS: usize = 200;
    /// The maximum number of notes on a card.
    pub const MAX_NOTES: usize = 64;

    /// Creates a card without a version and without notes, for implementations of
    /// [`Directory`](crate::backend::Directory).
    #[must_use]
    pub fn new(host: impl Into<String>, pid: u32, program: impl Into<String>, since: UtcTime) -> Self {
        let (host, program) = (host.into(), program.into());
        Self { host, pid, program, version: None, since, notes: BTreeMap::new() }
    }

    /// Describes this process.
    fn of_this_process(since: UtcTime) -> Self {
        let program = std::env::current_exe().ok();
        let program = program.as_deref().and_then(|path| path.file_stem()).unwrap_or_default();
        Self::new(host(), std::process::id(), program.to_string_lossy(), since)
    }

    /// Truncates the texts, and escapes characters that do not print.
    pub(crate) fn printable(mut self) -> Self {
        let Self { host, program, version, notes, .. } = &mut self;
        while notes.len() > Self::MAX_NOTES {
            notes.pop_last();
        }
        for text in [host, program].into_iter().chain(version).chain(notes.values_mut()) {
            *text = printable(text);
        }
        self
    }
}

/// A factory's settings for its card.
#[derive(Debug, Default)]
pub(crate) struct CardOptions {
    /// Name and version.
    program: Option<(String, String)>,
    off: bool,
}

impl CardOptions {
    pub(crate) fn program(&mut self, name: &str, version: &str) {
        self.program = Some((name.to_owned(), version.to_owned()));
    }

    pub(crate) fn turn_off(&mut self) {
        self.off = true;
    }

    /// Returns this process's card, unless it is disabled.
    pub(crate) fn card(self, since: UtcTime) -> Option<ProcessCard> {
        if self.off {
            return None;
        }
        let mut card = ProcessCard::of_this_process(since);
        if let Some((program, version)) = self.program {
            card.program = program;
            card.version = (!version.is_empty()).then_some(version);
        }
        Some(card.printable())
    }
}

/// Prints one line, such as `shop 1.4.2, pid 4711 on host-7`.
impl fmt::Display for ProcessCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.program)?;
        if let Some(version) = &self.version {
            write!(f, " {version}")?;
        }
        write!(f, ", pid {} on {}", self.pid, self.host)
    }
}

/// Returns the text for a terminal or a log: truncated, and with control characters and invisible characters escaped,
/// such as those that change the writing direction.
pub(crate) fn printable(text: &str) -> String {
    const MAX: usize = ProcessCard::MAX_TEXT_CHARS;
    let is_hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let escaped = |c: char| -> String { if is_hidden(c) { c.escape_default().collect() } else { c.into() } };
    text.chars().map(escaped).take(MAX).collect::<String>().chars().take(MAX).collect()
}

#[cfg(unix)]
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_truncated_and_escaped() {
        assert_eq!(printable("shop é 店"), "shop é 店");
        assert_eq!(printable("a\x1b[31m\n\0\u{202e}b"), "a\\u{1b}[31m\\n\\u{0}\\u{202e}b");
        for long in ["x", "\0"] {
            assert_eq!(printable(&long.repeat(1_000_000)).len(), ProcessCard::MAX_TEXT_CHARS);
        }
    }

    #[test]
    fn all_card_texts_are_made_printable() {
        let mut card = ProcessCard::new("h\n", 1, "p\n", UtcTime::default());
        card.version = Some("v\n".to_owned());
        card.notes = (0..1000).map(|number| (LeaseNumber::new(number), "n\n".to_owned())).collect();
        let card = card.printable();
        assert_eq!(card.to_string(), "p\\n v\\n, pid 1 on h\\n");
        assert_eq!(card.notes.len(), ProcessCard::MAX_NOTES);
        assert!(card.notes.values().all(|note| note == "n\\n"));
    }

    #[test]
    fn this_process_is_described() {
        let card = ProcessCard::of_this_process(UtcTime::default());
        assert_eq!(card.pid, std::process::id());
        assert!(card.program.starts_with("lock_core"), "{card}");
        assert!(!card.host.is_empty());
    }
}
