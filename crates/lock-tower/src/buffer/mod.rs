//! A layer that reads the request's body before its lock is acquired.

mod body;
mod budget;
mod future;
mod layer;
mod upload;

pub use body::BufferedBody;
pub use future::BufferRequestFuture;
pub use layer::{BufferRequest, BufferRequestLayer};
