//! The services, futures and bodies of the layers, for use in signatures.

mod future;
mod lock_service;
mod running;

pub use crate::{
    body::LockedBody,
    buffer::{BufferRequest, BufferRequestFuture, BufferedBody},
    detach::{DetachFuture, DetachService, DetachedBody},
    in_handler::{InHandlerFuture, InHandlerService},
    key::BodyKey,
};
pub use future::ResponseFuture;
pub use lock_service::LockService;

pub(crate) use running::Running;
