//! The steps that may happen next.

/// One step. Messages are identified by their position among those in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuorumAct {
    /// This client starts a round.
    Begin(usize),
    /// It gives up its round without a decision.
    GiveUp(usize),
    /// It renews its hold.
    Renew(usize),
    /// It releases its hold.
    Free(usize),
    /// A message arrives.
    Arrive(usize),
    /// A message is lost.
    Lose(usize),
    /// A message takes longer.
    Delay(usize),
    /// A node restarts without its data.
    Crash(usize),
    /// The lease on this node ends, regardless of the time.
    Expire(usize),
    /// Time advances.
    Tick,
}
