//! What may happen next.

/// One step. Messages are named by their place among those in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuorumAct {
    /// This client begins a round.
    Begin(usize),
    /// It gives its round up without a decision.
    GiveUp(usize),
    /// It renews what it holds.
    Renew(usize),
    /// It releases what it holds.
    Free(usize),
    /// A message arrives.
    Arrive(usize),
    /// A message is lost.
    Lose(usize),
    /// A message will need longer.
    Delay(usize),
    /// A node restarts without its data.
    Crash(usize),
    /// The lease on this node ends, whatever time it is.
    Expire(usize),
    /// Time goes on.
    Tick,
}
