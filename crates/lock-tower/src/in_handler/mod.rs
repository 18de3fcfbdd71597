//! Locks that a handler acquires for a parsed value.
//!
//! A handler that parses its own key starts before it has its lock. It sends the names through a slot in the extensions
//! of its request and waits; the layer's future, which polls the handler, acquires the lock and replies. Waits,
//! rejections, losses and the end of the body are therefore the same code for both kinds of keys. A rejected handler is
//! dropped at its await. A detached handler moves to its task when it has its lock; before that, it ends with its client.

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
