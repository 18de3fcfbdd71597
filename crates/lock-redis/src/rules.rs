//! The rules of a backend for its requests and replies.

use std::time::Duration;

/// The settings for operations, which are the same for all servers of a backend.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// The retention for locks that do not set their own.
    pub(crate) retention: Option<Duration>,
    pub(crate) foreign_strings: ForeignStrings,
    pub(crate) releases: Releases,
    pub(crate) channels: Channels,
}

/// The channels of wake-ups in a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channels {
    /// Sharded ones if every master has them.
    Sharded,
    Plain,
}

/// The commands of the usual release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Releases {
    /// `HDEL` and `PUBLISH`, which the server executes in this order.
    ByCommands,
    ByScript,
}

/// The treatment of a lock name whose key holds a string with an expiry, as other lock implementations store it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForeignStrings {
    Refused,
    Busy,
}
