//! Messages of several nodes about one release. A release is reported once, when a majority of the nodes reported it.

/// The messages of the latest release of a name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Burst {
    nodes: Vec<usize>,
    reported: bool,
    number: u64,
}

/// The next thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Message {
    /// Nothing.
    Known,
    /// Wait for more, and call [`Burst::is_overdue`] with this number after a moment.
    First(u64),
    /// Report the release.
    Report,
}

impl Burst {
    /// A node reported a release. A second message of a node belongs to another release.
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

    /// Whether the burst of this number is still waiting for its majority. It is reported then.
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
        assert_eq!(burst.hear(0, 2), Message::First(2), "though the third node was never heard");
        assert_eq!(burst.hear(2, 2), Message::Report);
    }

    #[test]
    fn message_of_a_minority_is_reported_after_a_moment() {
        let mut burst = Burst::default();
        assert_eq!(burst.hear(0, 2), Message::First(1));
        assert!(burst.is_overdue(1));
        assert!(!burst.is_overdue(1), "once");
        assert_eq!(burst.hear(1, 2), Message::Known, "too late for news");
    }
}
