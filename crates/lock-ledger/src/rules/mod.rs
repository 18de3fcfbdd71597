//! The rules of the run ledger: the replies to a scheduler, as pure functions over the data of one group.
//!
//! ```text
//!            claim                     end(finish)
//!   decided ◀────── due    running ────────────────▶ history
//!   (watermark)      └──────▶ │ ▲ claim with `retry_of`
//!                             │ │   of a failed attempt: failures ≤ budget
//!                             │ │   of an orphaned or interrupted one: orphanings < budget
//!                             ▼ │   of a requeued one: always, the same attempt
//!        failed · interrupted · unbegun      or running, and its lease is over: orphaned
//!     end(retry) end(reassign) end(requeue)
//! ```
//!
//! Invariants:
//! - an instant is decided once: the watermark rises with each claim and each skip, and an instant that is not above it, or
//!   not above the beginning of its schedule, is never claimed as a first attempt;
//! - an open run has one attempt, and only its claim id can renew or end it;
//! - an attempt whose lease is over cannot be renewed, only ended or followed by another;
//! - tokens only rise; the watermark falls only by an operator's reset.

mod claim;
mod control;
mod end;
mod history;
mod register;
mod retry;
mod start;
mod state;

#[cfg(test)]
mod tests;

pub use state::GroupLedger;
