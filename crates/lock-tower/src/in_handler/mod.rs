//! Locks that a handler acquires for a parsed value.

mod claim;
mod future;
#[cfg(feature = "axum")]
mod locked;
mod service;
mod slot;

pub use future::InHandlerFuture;
#[cfg(feature = "axum")]
pub use locked::{Locked, LockedRejection};
pub use service::InHandlerService;
pub use slot::LockSlot;
