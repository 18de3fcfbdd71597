//! Merges the messages of several nodes about one release, so that it is reported once: when a majority has reported
//! it.

/// The messages about the latest release of a name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Burst {
    nodes: Vec<usize>,
    reported: bool,
    number: u64,
}

/// The action that a message requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Message {
    /// No action.
    Known,
    /// Wait for further messages, then call [`Burst::is_overdue`] with this number.
    First(u64),
    /// Report the release.
    Report,
}

impl Burst {
    /// Handles a node's message about a release. A second message from the same node belongs to the next release.
    pub(super) fn hear(&mut self, node: usize, majority: usize) -> Message {
        let is_next = self.nodes.contains(&node);
        if is_next {
            *self = Self { nodes: Vec::new(), reported: false, number: self.number };
        }
        self.nodes.push(node);
        if self.reported {
            return Message::Known;
        }
        if self.nodes.len() >= majority {
            self.reported = true;
            return Message::Report;
        }
        if self.nodes.len() > 1 {
            return Message::Known;
        }
        self.number += 1;
        Message::First(self.number)
    }

    /// Returns `true` if the burst with this number still waits for its majority, and marks it as reported.
    pub(super) fn is_overdue(&mut self, number: u64) -> bool {
        let overdue = self.number == number && !self.reported;
        self.reported |= overdue;
        overdue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn majority_reports_a_release_once() {
        let mut burst = Burst::default();
        assert_eq!(burst.hear(0, 3), Message::First(1));
        assert_eq!(burst.hear(4, 3), Message::Known);
        assert_eq!(burst.hear(2, 3), Message::Report);
        assert_eq!(burst.hear(1, 3), Message::Known, "a straggler of the same release");
        assert!(!burst.is_overdue(1));
    }

    #[test]
    fn second_message_of_a_node_is_another_release() {
        let mut burst = Burst::default();
        assert_eq!(burst.hear(0, 2), Message::First(1));
        assert_eq!(burst.hear(1, 2), Message::Report);
        assert_eq!(burst.hear(0, 2), Message::First(2), "the third node never reported the first release");
        assert_eq!(burst.hear(2, 2), Message::Report);
    }

    #[test]
    fn message_of_a_minority_is_reported_after_a_delay() {
        let mut burst = Burst::default();
        assert_eq!(burst.hear(0, 2), Message::First(1));
        assert!(burst.is_overdue(1));
        assert!(!burst.is_overdue(1), "reported once");
        assert_eq!(burst.hear(1, 2), Message::Known, "the release is already reported");
    }
}
