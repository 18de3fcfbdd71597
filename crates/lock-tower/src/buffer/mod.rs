//! A layer that reads the request's body before anybody holds a lock for it.

mod body;
mod budget;
mod future;
mod layer;
mod upload;

pub use body::BufferedBody;
pub use future::BufferRequestFuture;
pub use layer::{BufferRequest, BufferRequestLayer};
