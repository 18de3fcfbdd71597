//! The service behind a lock, and its future.

mod future;
mod lock_service;

pub use future::ResponseFuture;
pub use lock_service::LockService;
