//! The rules of the run ledger as pure functions over one group's data.
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
//! - A scheduled time is decided once: each claim and each skip raises the watermark. A time that
//!   is not later than both the watermark and the start of its schedule is never claimed as a first
//!   attempt.
//! - An open run has one attempt, and only its claim id can renew or end it.
//! - An attempt whose lease has ended cannot be renewed, only ended or followed by another.
//! - A claim with a pool starts a run only while the pool has fewer open runs than the claim's
//!   limit, across the group.
//! - Each claim of a backfill raises its mark. At most one of its runs is open.
//! - A cancelled run gets no further attempt.
//! - A payload belongs to a pending trigger or to its open run, and is removed when neither
//!   remains.
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
