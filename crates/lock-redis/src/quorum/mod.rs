//! Redis servers as quorum nodes, and the quorum behind a `redlock://` address.
//!
//! A node stores locks in the same layout as any other Redis server. An additional marker records the time since which
//! this run of the server has kept its data. Each request carries the run id of the server. The id is read once per
//! connection, because a connection does not outlive the process of its server.

mod connect;
mod node;
mod peers;
mod replies;

pub(crate) use peers::Membership;
