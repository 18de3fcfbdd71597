//! Leader election: one of several processes leads.
//!
//! [`LockFactory::election`](crate::LockFactory::election) creates an [`Election`]. [`Election::lead`] takes a body;
//! [`Lead::until`] campaigns, runs the body while this process leads, and campaigns again after a loss or an error. At
//! shutdown it ends the body first and then releases the lock, so that the next process leads immediately.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use lock_core::{LockFactory, MemoryBackend, election::Role};
//! use std::{convert::Infallible, time::Duration};
//!
//! let locks = LockFactory::new(MemoryBackend::new());
//! let election = locks.election("outbox")?;
//! let role = election.role();
//!
//! // For a readiness probe: 200 on the leader, 503 elsewhere.
//! let ready = move || if role.borrow().is_leading() { 200 } else { 503 };
//! assert_eq!(ready(), 503);
//!
//! let shutdown = tokio::time::sleep(Duration::from_millis(50)); // in production: SIGTERM
//! let leading = election.lead(|term| {
//!     assert_eq!(ready(), 200);
//!     async move {
//!         loop {
//!             // … relay a batch of messages; the target refuses tokens below `term.fencing_token()` …
//!             println!("relaying under token {}", term.fencing_token());
//!             tokio::time::sleep(Duration::from_millis(20)).await;
//!         }
//!         #[allow(unreachable_code)]
//!         Ok::<(), Infallible>(()) // the work is done: resign and stop campaigning
//!     }
//! });
//! leading.until(shutdown).await?;
//! assert_eq!(ready(), 503);
//! # Ok(()) }
//! ```
//!
//! # The end of a term
//! | event | the lock | then |
//! | --- | --- | --- |
//! | the body returns `Ok` | is released | [`until`](Lead::until) returns [`LeadEnd::Finished`] |
//! | the body returns `Err`, or panics | is released | a new campaign after the [back-off](ElectionOptions::back_off) |
//! | the lock is lost | is gone | the body is dropped at its current await; a new campaign after the back-off |
//! | [`Election::resign`] | is released once the body has ended | a new campaign after the back-off |
//! | the shutdown | is released once the body has ended | `until` returns [`LeadEnd::Stopped`] |
//!
//! A body ends by being dropped at its current await, unless the [grace](ElectionOptions::grace) period gives it time
//! to end by itself when [`Term::stopping`] completes. Tasks that a body has spawned do not end with it: keep them in a
//! `JoinSet` that the body owns.
//!
//! # Guarantees
//! An election is built on the [`Lock`](crate::Lock) of its name and gives the same guarantee: at most one *valid*
//! leader. A process that was paused past its lease learns of its loss before its body is polled again, but only the
//! resource can reject its late writes, by checking the term's [token](Term::fencing_token). When a leader dies,
//! another process leads once the lease has expired; when it resigns, immediately.
//!
//! # Metrics
//! [`TermStarted`](crate::observer::LockEventKind::TermStarted) and
//! [`TermEnded`](crate::observer::LockEventKind::TermEnded) report each term. `OtelObserver` records them in the
//! instruments `lock.leading` and `lock.term.duration`.

mod candidate;
mod handle;
mod options;

pub use candidate::{LeadEnd, Leader, Role, Term};
pub use handle::{Election, Lead};
pub use options::ElectionOptions;
