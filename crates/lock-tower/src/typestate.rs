//! The states of a [`LockLayer`](crate::LockLayer) under construction.

/// No key is set yet.
#[derive(Debug, Clone, Copy)]
pub struct NoKey(pub(crate) ());

/// A client that leaves cancels its handler: it is dropped at its `.await`, and the lock is released.
#[derive(Debug, Clone, Copy)]
pub struct Cancel(pub(crate) ());

/// A client that leaves does not stop its handler; see [`LockLayer::detach`](crate::LockLayer::detach).
#[derive(Debug, Clone, Copy)]
pub struct Detach(pub(crate) ());
