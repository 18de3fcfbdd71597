//! The requests for one lease that one node may have executed or may still execute, and the releases that prove that
//! nothing is left.
//!
//! A proposal or a heal without a reply may be executed later, until its `not_after`. A release proves that the lease
//! is gone in three cases:
//!
//! - No request that may set the lease was in flight when the release was sent.
//! - The release was executed after the last `not_after`, both by the node's clock.
//! - The release found the lease, and only one request can have set it. A request is executed at most once.

use lock_core::clock::UtcTime;

/// The requests that may have set one lease on one node, and the releases that followed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Residue {
    /// Number of requests that may have set the lease.
    requests: u32,
    /// Number of these requests that have no reply yet.
    unanswered: u32,
    /// `true` if the outcome of a request is unknown even though it was answered or given up.
    unknown: bool,
    /// Latest time at which one of the requests may be executed.
    not_after: UtcTime,
    /// Number of times that the lease was set, according to the replies.
    sets: u32,
    /// Value of `sets` when the latest executed release was sent.
    released: u32,
    /// `true` if a release has proved that no request can still set the lease.
    is_over: bool,
}

/// The result of a request that may set the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The lease was set, or extended.
    Set,
    /// The lease was certainly not set.
    NotSet,
    /// The lease may have been set.
    Unknown,
}

/// A release in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Release {
    /// Time after which the release must be executed to be conclusive; `None` if it is conclusive at any time.
    after: Option<UtcTime>,
    requests: u32,
    sets: u32,
}

impl Residue {
    /// Records a request that may set the lease until `not_after`.
    pub fn sent(&mut self, not_after: UtcTime) {
        self.is_over = false;
        self.requests += 1;
        self.unanswered += 1;
        self.not_after = self.not_after.max(not_after);
    }

    /// Records the outcome of a request that was answered or given up.
    pub fn answered(&mut self, outcome: Outcome) {
        self.unanswered = self.unanswered.saturating_sub(1);
        match outcome {
            Outcome::Set => self.sets += 1,
            Outcome::Unknown => self.unknown = true,
            Outcome::NotSet => {}
        }
    }

    /// Records an unknown outcome for every request without a reply.
    pub fn give_up(&mut self) {
        while self.unanswered > 0 {
            self.answered(Outcome::Unknown);
        }
    }

    /// Returns `true` if the node certainly does not have the lease and no request can still set it.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.is_over || (self.sets == self.released && !self.is_open())
    }

    /// Returns `true` if a request may still set the lease.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.unanswered > 0 || self.unknown
    }

    /// Returns a release to send now.
    #[must_use]
    pub fn release(&self) -> Release {
        let after = self.is_open().then_some(self.not_after);
        Release { after, requests: self.requests, sets: self.sets }
    }

    /// Records a release that was executed at this time by the node's clock, if the time is known, and whether it found
    /// the lease. Returns the time after which the next release is conclusive, or `None` if the next one need not wait.
    pub fn released(&mut self, release: Release, executed: Option<UtcTime>, found: bool) -> Option<UtcTime> {
        let was_last = found && (release.requests, self.requests) == (1, 1);
        let proves = was_last || release.after.is_none_or(|not_after| executed > Some(not_after));
        self.is_over |= proves && release.after.is_some();
        // A grant whose reply arrived in the meantime may have been executed after the release.
        self.released = self.released.max(release.sets);
        (!self.is_clean() && self.is_open()).then_some(self.not_after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UtcTime = UtcTime::from_micros(1_000_000);
    const LATER: UtcTime = UtcTime::from_micros(1_000_001);

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
    fn granted_reply_needs_one_release() {
        let mut residue = Residue::default();
        residue.sent(LATER);
        residue.answered(Outcome::Set);
        let release = residue.release();
        assert_eq!(residue.released(release, Some(NOW), false), None);
        assert!(residue.is_clean());
    }

    #[test]
    fn release_before_not_after_proves_nothing_about_an_unknown_request() {
        let mut residue = Residue::default();
        residue.sent(NOW);
        residue.answered(Outcome::Unknown);
        let release = residue.release();
        assert_eq!(residue.released(release, Some(NOW), false), Some(NOW));
        assert!(!residue.is_clean(), "the proposal may be executed after the release");
        let release = residue.release();
        assert_eq!(residue.released(release, Some(LATER), false), None);
        assert!(residue.is_clean());
    }

    #[test]
    fn grant_that_arrives_during_a_release_is_released_again() {
        let mut residue = Residue::default();
        residue.sent(LATER);
        let release = residue.release();
        residue.answered(Outcome::Set);
        assert_eq!(
            residue.released(release, Some(NOW), false),
            None,
            "the next release need not wait, since no request is in flight"
        );
        assert!(!residue.is_clean(), "the grant may have been executed after the release");
        let release = residue.release();
        residue.released(release, Some(NOW), false);
        assert!(residue.is_clean());
    }

    #[test]
    fn release_that_finds_the_lease_of_the_only_request_proves_it() {
        let mut residue = Residue::default();
        residue.sent(LATER);
        let release = residue.release();
        assert_eq!(residue.released(release, Some(NOW), true), None);
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
            assert_eq!(residue.released(release, Some(NOW), true), Some(LATER));
            assert!(!residue.is_clean(), "the other one may be executed after the release");
        }
    }

    #[test]
    fn reply_after_a_proof_changes_nothing() {
        let mut residue = Residue::default();
        residue.sent(NOW);
        let release = residue.release();
        residue.released(release, Some(LATER), false);
        residue.answered(Outcome::Set);
        assert!(residue.is_clean(), "it was executed before the release");
    }
}
