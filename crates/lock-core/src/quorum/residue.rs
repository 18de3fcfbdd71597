//! What may be left of one lease on one node, and the releases after which nothing can be.
//!
//! A proposal or a heal that was not answered may be executed later, up to its `not_after`. A release proves that nothing is
//! left only if nothing was under way when it was sent; if it was executed after the last `not_after`, both by the clock of
//! the node; or if it found the lease that only one request can have set: each is executed once.

use crate::time::ServerTime;

/// What is known of one lease on one node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Residue {
    /// Requests that may have set the lease, and those of them under way.
    requests: u32,
    unanswered: u32,
    /// The outcome of an answered request is unknown.
    unknown: bool,
    /// The last time at which one of those may be executed.
    not_after: ServerTime,
    /// How often the lease was set, and how often when the last release was sent that was executed.
    sets: u32,
    released: u32,
    /// No request can set it any more.
    is_over: bool,
}

/// The result of a request that may set the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The lease was set, or extended.
    Set,
    /// It certainly was not.
    NotSet,
    /// Nobody knows.
    Unknown,
}

/// A release under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Release {
    /// It proves that nothing is left only if it is executed after this time.
    after: Option<ServerTime>,
    requests: u32,
    sets: u32,
}

impl Residue {
    /// A request was sent that may set the lease until `not_after`.
    pub fn sent(&mut self, not_after: ServerTime) {
        self.is_over = false;
        self.requests += 1;
        self.unanswered += 1;
        self.not_after = self.not_after.max(not_after);
    }

    /// It was answered, or given up.
    pub fn answered(&mut self, outcome: Outcome) {
        self.unanswered = self.unanswered.saturating_sub(1);
        match outcome {
            Outcome::Set => self.sets += 1,
            Outcome::Unknown => self.unknown = true,
            Outcome::NotSet => {}
        }
    }

    /// Nobody waits for the answers any more.
    pub fn give_up(&mut self) {
        while self.unanswered > 0 {
            self.answered(Outcome::Unknown);
        }
    }

    /// Whether the lease may be there, or may yet be set.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.is_over || (self.sets == self.released && !self.is_open())
    }

    /// Requests may yet set the lease.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.unanswered > 0 || self.unknown
    }

    /// A release is sent now.
    #[must_use]
    pub fn release(&self) -> Release {
        let after = self.is_open().then_some(self.not_after);
        Release { after, requests: self.requests, sets: self.sets }
    }

    /// A release was executed at this time of the node, and found the lease or did not. Returns the time after which another one
    /// must be executed.
    pub fn released(&mut self, release: Release, executed: ServerTime, found: bool) -> Option<ServerTime> {
        let was_last = found && (release.requests, self.requests) == (1, 1);
        let proves = was_last || release.after.is_none_or(|not_after| executed > not_after);
        self.is_over |= proves && release.after.is_some();
        // A grant that was answered meanwhile may have been executed after the release.
        self.released = self.released.max(release.sets);
        (!self.is_clean() && self.is_open()).then_some(self.not_after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: ServerTime = ServerTime::from_micros(1_000_000);
    const LATER: ServerTime = ServerTime::from_micros(1_000_001);

    #[test]
    fn refused_proposal_leaves_nothing() {
        let mut residue = Residue::default();
        assert!(residue.is_clean());
        residue.sent(NOW);
        assert!(!residue.is_clean(), "it may be executed");
        residue.answered(Outcome::NotSet);
        assert!(residue.is_clean());
    }

    #[test]
    fn answered_grant_needs_one_release() {
        let mut residue = Residue::default();
        residue.sent(LATER);
        residue.answered(Outcome::Set);
        let release = residue.release();
        assert_eq!(residue.released(release, NOW, false), None);
        assert!(residue.is_clean());
    }

    #[test]
    fn release_before_not_after_proves_nothing_of_an_unknown_request() {
        let mut residue = Residue::default();
        residue.sent(NOW);
        residue.answered(Outcome::Unknown);
        let release = residue.release();
        assert_eq!(residue.released(release, NOW, false), Some(NOW));
        assert!(!residue.is_clean(), "the proposal may be executed behind the release");
        let release = residue.release();
        assert_eq!(residue.released(release, LATER, false), None);
        assert!(residue.is_clean());
    }

    #[test]
    fn grant_that_is_answered_during_a_release_is_released_again() {
        let mut residue = Residue::default();
        residue.sent(LATER);
        let release = residue.release();
        residue.answered(Outcome::Set);
        assert_eq!(residue.released(release, NOW, false), None, "at once, since nothing is under way");
        assert!(!residue.is_clean(), "the grant may have been executed after the release");
        let release = residue.release();
        residue.released(release, NOW, false);
        assert!(residue.is_clean());
    }

    #[test]
    fn release_that_finds_the_lease_of_the_only_request_proves_it() {
        let mut residue = Residue::default();
        residue.sent(LATER);
        let release = residue.release();
        assert_eq!(residue.released(release, NOW, true), None);
        assert!(residue.is_clean(), "the proposal was executed before the release");
        residue.answered(Outcome::Set);
        assert!(residue.is_clean());
    }

    #[test]
    fn release_that_finds_the_lease_of_one_of_two_requests_proves_nothing() {
        for between in [false, true] {
            let mut residue = Residue::default();
            residue.sent(LATER);
            let early = residue.release();
            residue.sent(LATER);
            let release = if between { early } else { residue.release() };
            assert_eq!(residue.released(release, NOW, true), Some(LATER));
            assert!(!residue.is_clean(), "the other one may be executed behind the release");
        }
    }

    #[test]
    fn answer_behind_a_proof_changes_nothing() {
        let mut residue = Residue::default();
        residue.sent(NOW);
        let release = residue.release();
        residue.released(release, LATER, false);
        residue.answered(Outcome::Set);
        assert!(residue.is_clean(), "it was executed before the release");
    }
}
