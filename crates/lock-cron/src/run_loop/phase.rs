//! The phases of a run loop, from the first claim until the last job body has finished.

use tokio::time::Instant;

/// The phase of a run loop. Draining and finishing share one deadline; without it, they wait for all claims and bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    /// No claims are sent; the claims in flight are awaited.
    Draining(Option<Instant>),
    /// The leadership is released; running bodies finish.
    Finishing(Option<Instant>),
    /// Bodies were told to stop.
    Ending,
}

impl Phase {
    /// Returns the deadline of the phase, if it has one.
    pub(super) fn deadline(self) -> Option<Instant> {
        match self {
            Self::Draining(deadline) | Self::Finishing(deadline) => deadline,
            Self::Running | Self::Ending => None,
        }
    }

    pub(super) fn is_overdue(self, now: Instant) -> bool {
        self.deadline().is_some_and(|deadline| now >= deadline)
    }
}
