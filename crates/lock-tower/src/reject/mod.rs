//! Rejected requests, with their reasons and responses.

mod body;
mod grpc;
mod hash;
pub(crate) mod kind;
mod problem;
mod reason;
mod rejection;
mod retry;

#[cfg(test)]
mod tests;

pub use body::RejectionBody;
pub use hash::KeyHash;
pub use reason::RejectReason;
pub use rejection::Rejection;

pub(crate) use body::boxed;
pub(crate) use problem::Details;
pub(crate) use retry::not_started;
