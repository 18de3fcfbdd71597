//! Handlers that finish although their client has left.
//!
//! A detached handler runs in a task from its first poll to the last frame of its body, and sends both to the client
//! as long as there is one.

mod body;
mod service;
mod task;
mod tasks;

pub use body::DetachedBody;
pub use service::{DetachFuture, DetachService};
pub use tasks::{DetachedTasks, DrainTimeout};

pub(crate) use task::Keep;
pub(crate) use tasks::Slot;
