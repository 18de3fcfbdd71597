//! What may happen next.
//!
//! The world of this model is hostile within its budget, and otherwise instant: what is not delayed arrives before time
//! goes on, in any order. It is kinder than the worst that can be imagined in these ways:
//!
//! - A plain acquire or a re-entry that is carried out twice gets no answer, as the contract of a backend says (*no
//!   silent resends*), and neither does a release that lowers the depth; [`Config::resends_answered`] lifts that.
//! - A subscription, or its end, is not carried out after it timed out: it died with its connection.
//! - Losing data takes longer than a millisecond, by which the counter of tokens may run ahead of the clock.
//! - The server's clock does not step, as is assumed everywhere.
//!
//! [`Config::resends_answered`]: crate::Config::resends_answered

use crate::message::Message;

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Act {
    /// The application of this process begins the next acquire of its script.
    Enter(usize),
    /// The waiter of this process at this place of its script goes away.
    Leave(usize, usize),
    /// A guard of the hold of this process at this place is dropped, or released by hand.
    Drop(usize, usize),
    /// The store carries out a request.
    Execute(Message),
    /// A process hears of a reply or a wake-up.
    Deliver(Message),
    /// A call of this process is given up.
    TimeOut(usize),
    /// The timer of this process fires.
    Tick(usize),
    /// Time goes on to the next moment at which something can happen.
    Advance,
    /// A message is lost.
    Lose(Message),
    /// A message will need longer than the others.
    Delay(Message),
    /// A request will be carried out twice.
    Duplicate(Message),
    /// The wall clock of this process jumps.
    Suspect(usize),
    /// This process shuts down.
    Close(usize),
    /// The process stands still; its clock does not.
    Pause(usize),
    /// It goes on.
    Resume(usize),
    /// The server writes a dump.
    Save,
    /// The server starts again without data.
    Restart,
    /// The server starts again from its dump.
    Restore,
    /// The server forgets the lease.
    Evict,
}
