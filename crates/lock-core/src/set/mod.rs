//! Several locks that are acquired together: all or none.
//!
//! Sets are created by [`LockFactory::all`](crate::LockFactory::all). A [`LockSet`] acquires its locks in the order of
//! their names, so two sets cannot deadlock, regardless of the order in which their names were given.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use lock_core::{LockFactory, LockName, MemoryBackend};
//!
//! async fn transfer(locks: &LockFactory, from: u64, to: u64) -> Result<(), Box<dyn std::error::Error>> {
//!     let (from, to) = (LockName::of(("account", from))?, LockName::of(("account", to))?);
//!     locks
//!         .all([&from, &to])?
//!         .run(|held| async move {
//!             let (debit, credit) = (held.fencing_token(&from), held.fencing_token(&to));
//!             // … write both accounts, each fenced with its token …
//! #           assert!(debit.is_some() && credit.is_some());
//!         })
//!         .await?;
//!     Ok(())
//! }
//!
//! let locks = LockFactory::new(MemoryBackend::new());
//! let (there, back) = tokio::join!(transfer(&locks, 1, 2), transfer(&locks, 2, 1));
//! there.and(back)?;
//! # Ok(()) }
//! ```

mod error;
mod guard;
mod lock_set;

pub use error::{MemberLost, SetError};
pub use guard::{LockSetGuard, SetHold};
pub use lock_set::LockSet;
