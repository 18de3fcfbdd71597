//! One Redis as a node of a quorum, and the quorum behind a `redlock://`.
//!
//! A node keeps locks in the layout of every other Redis. A marker beside them says since when this run of the server has kept
//! its data. The run id comes with every request, and is read once for each connection: a connection ends with the process of
//! its server.

mod connect;
mod node;
mod replies;
