//! The rules of the run ledger as pure functions over the data of one group.
//!
//! ```text
//!            claim                     end(finish)
//!   decided ◀────── due    running ────────────────▶ history
//!   (watermark)      └──────▶ │ ▲ claim with `retry_of`
//!                             │ │   of a failed attempt: failures ≤ budget
//!                             │ │   of an orphaned or interrupted one: orphanings < budget
//!                             ▼ │   of a requeued one: always, the same attempt
//!       failed · interrupted · unbegun      or running after the end of its lease: orphaned
//!     end(retry) end(reassign) end(requeue)
//! ```
//!
//! Invariants:
//! - An instant is decided once: the watermark rises with each claim and each skip. An instant that is not above it,
//!   or not above the start of its schedule, is never claimed as a first attempt.
//! - An open run has one attempt, and only its claim id can renew or end it.
//! - An attempt whose lease has ended cannot be renewed, only ended or followed by another.
//! - A claim with a pool starts only while fewer open runs than its limit are in that pool, in the whole group.
//! - The mark of a backfill rises with each claim. At most one of its runs is open.
//! - A cancelled run gets no further attempt.
//! - A payload belongs to a waiting trigger or to an open run, and is removed with the last of them.
//! - Tokens only increase. The watermark is lowered only by an operator's reset.

mod backfill;
mod claim;
mod control;
mod end;
mod heartbeat;
mod history;
mod instance;
mod pool;
mod register;
mod retry;
mod start;
mod state;
mod summary;

#[cfg(test)]
mod tests;

pub use state::GroupLedger;
