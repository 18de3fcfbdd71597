//! Handlers that continue after their client disconnects.
//!
//! A detached handler runs in a task from its first poll to the last frame of its body. The task
//! sends the head and the frames to the client, if it is still connected.

mod body;
mod service;
mod task;
mod tasks;

pub use body::DetachedBody;
pub use service::{DetachFuture, DetachService};
pub use tasks::{DetachedTasks, DrainTimeout};

pub(crate) use task::KeepLock;
pub(crate) use tasks::TaskSlot;
