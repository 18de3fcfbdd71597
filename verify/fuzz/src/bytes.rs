//! Bytes as a source of choices. When they are used up, every choice is the first one.

use std::time::Duration;

/// What is left of an input.
#[derive(Debug, Clone)]
pub struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    /// All of it.
    #[must_use]
    pub fn new(data: &'a [u8]) -> Self {
        Self { rest: data }
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        match self.rest {
            [first, rest @ ..] => {
                self.rest = rest;
                *first
            }
            [] => 0,
        }
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        u64::from_be_bytes([(); 8].map(|()| self.byte()))
    }

    /// Yes or no.
    pub fn flag(&mut self) -> bool {
        self.byte() % 2 == 1
    }

    /// One of so many.
    pub fn choice(&mut self, of: u8) -> u8 {
        self.byte() % of.max(1)
    }

    /// A time: often one that makes sense, sometimes any.
    pub fn duration(&mut self) -> Duration {
        match self.choice(4) {
            0 => Duration::from_millis(self.number() % 100_000),
            1 => Duration::from_micros(self.number() % 1_000_000),
            2 => Duration::from_secs(self.number() % 1_000_000),
            _ => Duration::new(self.number(), 0),
        }
    }

    /// So many of the next bytes, or what is left.
    pub fn take(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(most.min(self.rest.len()));
        self.rest = rest;
        taken
    }
}
