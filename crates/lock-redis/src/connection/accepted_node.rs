//! A server that was accepted as a node of a quorum.

use crate::sync::lock;
use lock_core::clock::UtcTime;
use std::{sync::Mutex, time::Duration};

/// A server that was accepted as a node of a quorum.
#[derive(Debug)]
pub(crate) struct AcceptedNode {
    /// The run id of the server, which changes with each restart.
    pub(crate) run_id: String,
    /// `true` if it writes an append-only file. Without one, a crash loses data.
    pub(crate) appends: bool,
    /// The marker of the latest reply with an age.
    seen: Mutex<Option<SeenMarker>>,
}

#[derive(Debug)]
struct SeenMarker {
    text: String,
    age: Duration,
}

impl AcceptedNode {
    pub(crate) fn new(run_id: String, appends: bool) -> Self {
        Self { run_id, appends, seen: Mutex::new(None) }
    }

    /// Returns the node's marker if it is known to be at least this old, otherwise the run id. The server compares the
    /// whole marker with its own more cheaply than it computes the age.
    pub(crate) fn marker(&self, min_age: Duration) -> String {
        let seen = lock(&self.seen);
        let old_enough = seen.as_ref().filter(|seen| seen.age >= min_age);
        old_enough.map_or(&self.run_id, |seen| &seen.text).clone()
    }

    /// Records the age of the node at this time by its clock.
    pub(crate) fn has_age(&self, now: UtcTime, age: Duration) {
        let since = now.as_micros().saturating_sub(u64::try_from(age.as_micros()).unwrap_or(u64::MAX));
        *lock(&self.seen) = Some(SeenMarker { text: format!("{} {since}", self.run_id), age });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marker_is_sent_once_it_was_seen_to_be_old_enough() {
        let (node, second) = (AcceptedNode::new("run".to_owned(), false), Duration::from_secs(1));
        assert_eq!(node.marker(second), "run");
        node.has_age(UtcTime::from_micros(5_000_000), second);
        assert_eq!(node.marker(second), "run 4000000");
        assert_eq!(node.marker(2 * second), "run", "it was not seen to be as old as that");
        node.has_age(UtcTime::from_micros(6_000_000), Duration::ZERO);
        assert_eq!(node.marker(second), "run", "the data was lost");
    }
}
