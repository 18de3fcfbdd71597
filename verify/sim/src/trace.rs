//! The trace of events in order: folded into a hash for comparing two runs, and printed when a run fails.

use std::{
    fmt,
    hash::{DefaultHasher, Hasher},
};

/// The subject of an event: a link (one life of a process), or a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Store(usize),
    Link(usize),
}

#[derive(Debug, Clone)]
struct Note {
    at: u64,
    who: Who,
    what: &'static str,
    a: u64,
    b: u64,
}

/// The events of a run.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    notes: Vec<Note>,
    hash: DefaultHasher,
}

impl Trace {
    pub(crate) fn note(&mut self, at: u64, who: Who, what: &'static str, (a, b): (u64, u64)) {
        let link = match who {
            Who::Store(node) => u64::MAX - node as u64,
            Who::Link(link) => link as u64,
        };
        for word in [at, link, a, b] {
            self.hash.write_u64(word);
        }
        self.hash.write(what.as_bytes());
        self.notes.push(Note { at, who, what, a, b });
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash.finish()
    }

    pub(crate) fn len(&self) -> u64 {
        self.notes.len() as u64
    }

    /// Returns the last events, one per line.
    pub(crate) fn tail(&self, most: usize) -> String {
        let from = self.notes.len().saturating_sub(most);
        self.notes[from..].iter().map(|note| format!("{note}\n")).collect()
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, who, what, a, b } = self;
        write!(f, "{:>6}.{:06} ", at / 1_000_000, at % 1_000_000)?;
        match who {
            Who::Store(node) => write!(f, "store {node} ")?,
            Who::Link(link) => write!(f, "link {link:<2} ")?,
        }
        write!(f, " {what} {a} {b}")
    }
}
