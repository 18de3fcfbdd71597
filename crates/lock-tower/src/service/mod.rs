//! The services, futures and bodies of the layers, for signatures that name them.

mod future;
mod lock_service;

pub use crate::{
    body::LockedBody,
    buffer::{BufferRequest, BufferRequestFuture, BufferedBody},
    detach::{DetachFuture, DetachService, DetachedBody},
};
pub use future::ResponseFuture;
pub use lock_service::LockService;
