//! Counts the replies to a yes-or-no question that a majority decides.

use crate::round::majority;

/// The replies so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tally {
    nodes: usize,
    yes: usize,
    no: usize,
    out: usize,
}

/// A node's reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Word {
    /// Certainly yes.
    Yes,
    /// Certainly no.
    No,
    /// A reply that does not count: an error, a quarantined node, or a request that arrived too late.
    Out,
}

/// The decision of a majority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ruling {
    /// A majority said yes.
    Yes,
    /// Enough nodes said no that no majority can say yes.
    No,
    /// Neither answer can reach the number of nodes that it needs, because too many replies do not count.
    Unknown,
}

impl Tally {
    /// Creates a tally without replies.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        Self { nodes, yes: 0, no: 0, out: 0 }
    }

    /// Counts a node's reply.
    pub fn add(&mut self, word: Word) {
        match word {
            Word::Yes => self.yes += 1,
            Word::No => self.no += 1,
            Word::Out => self.out += 1,
        }
    }

    /// Returns the decision as soon as no further reply can change it.
    #[must_use]
    pub fn ruling(&self) -> Option<Ruling> {
        let waiting = self.nodes - self.yes - self.no - self.out;
        let (yes, no) = (majority(self.nodes), self.nodes - majority(self.nodes) + 1);
        match self {
            _ if self.yes >= yes => Some(Ruling::Yes),
            _ if self.no >= no => Some(Ruling::No),
            _ if self.yes + waiting < yes && self.no + waiting < no => Some(Ruling::Unknown),
            _ => None,
        }
    }

    /// Returns `true` if a majority can no longer say yes.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.no + self.out > self.nodes - majority(self.nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ruling(nodes: usize, words: &[Word]) -> Option<Ruling> {
        let mut tally = Tally::new(nodes);
        words.iter().for_each(|word| tally.add(*word));
        tally.ruling()
    }

    #[test]
    fn majority_decides_without_the_rest() {
        use Word::{No, Out, Yes};
        assert_eq!(ruling(3, &[Yes]), None);
        assert_eq!(ruling(3, &[Yes, Yes]), Some(Ruling::Yes));
        assert_eq!(ruling(5, &[No, No]), None);
        assert_eq!(ruling(5, &[No, No, No]), Some(Ruling::No));
        assert_eq!(ruling(3, &[Out, Out]), Some(Ruling::Unknown));
        assert_eq!(ruling(3, &[Out, No]), None, "the third may say no");
        assert_eq!(ruling(3, &[Out, No, Yes]), Some(Ruling::Unknown), "one certain no is not enough");
        assert_eq!(ruling(4, &[Yes, Yes]), None, "two of four are not a majority");
        assert_eq!(ruling(4, &[No, No]), Some(Ruling::No));
    }
}
