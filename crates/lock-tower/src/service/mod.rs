//! The services, futures and bodies that the layers make. They are named only in the types of functions.

mod future;
mod lock_service;

pub use crate::{
    body::LockedBody,
    buffer::{BufferRequest, BufferRequestFuture, BufferedBody},
    detach::{DetachFuture, DetachService, DetachedBody},
};
pub use future::ResponseFuture;
pub use lock_service::LockService;
