//! The steps that may happen next.
//!
//! Within its budget of faults the world of this model is hostile. Otherwise it is instant: messages that are not
//! delayed arrive before time advances, in any order. It is kinder than the worst case in these ways:
//! - A plain acquire or a re-entry that is executed twice gets no answer, as the contract of a backend requires (*no
//!   silent resends*), and neither does a release that lowers the depth. [`Config::resends_answered`] lifts that.
//! - A subscription, or its end, is not executed after it timed out, because it died with its connection.
//! - Losing data takes longer than a millisecond, the time by which the token counter may run ahead of the clock.
//! - The server's clock does not step, as is assumed everywhere.
//!
//! [`Config::resends_answered`]: crate::Config::resends_answered

use crate::message::Message;

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Act {
    /// The application of this process starts the next acquire of its script.
    Enter(usize),
    /// The waiter of this process at this position in its script is dropped.
    Leave(usize, usize),
    /// A guard of this process's hold at this position is dropped or explicitly released.
    Drop(usize, usize),
    /// The store executes a request.
    Execute(Message),
    /// A process receives a reply or a wake-up.
    Deliver(Message),
    /// A call of this process times out.
    TimeOut(usize),
    /// Time advances to the next moment at which anything can happen.
    Tick(usize),
    /// Time advances to the next moment at which something can happen.
    Advance,
    /// A message is lost.
    Lose(Message),
    /// A message takes longer than the others.
    Delay(Message),
    /// A request is executed twice.
    Duplicate(Message),
    /// The wall clock of this process jumps.
    Suspect(usize),
    /// This process shuts down.
    Close(usize),
    /// The process is copied with all its state; only random numbers that it has not drawn yet differ.
    Copy(usize),
    /// The process is suspended. Its clock continues.
    Pause(usize),
    /// It is resumed.
    Resume(usize),
    /// The server writes a dump.
    Save,
    /// The server restarts without data.
    Restart,
    /// The server restarts from its dump.
    Restore,
    /// The server loses the lease.
    Evict,
}
