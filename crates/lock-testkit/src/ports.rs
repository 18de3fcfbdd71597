//! Selection of free ports that no other program is given after they are closed.

use lock_core::backend::ProcessId;
use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// The first port, below the range that kernels assign to outgoing connections. From that range, a client that keeps
/// trying to reach a stopped server could be assigned the server's own port and connect to itself. A late client
/// could also reach the proxy of another test.
const FIRST: u64 = 10_000;
const COUNT: u64 = 22_000;

/// Returns a socket that listens on a free port.
pub(crate) fn listen() -> TcpListener {
    // Each process starts at a random port and counts up, so that its servers do not get one another's ports.
    static NEXT: LazyLock<AtomicU64> =
        LazyLock::new(|| AtomicU64::new(ProcessId::random().as_uuid().as_u64_pair().1 % COUNT));
    (0..COUNT)
        .map(|_| FIRST + NEXT.fetch_add(1, Relaxed) % COUNT)
        .filter_map(|port| u16::try_from(port).ok())
        .find_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok())
        .expect("of many thousand ports one is free")
}

/// Returns a port on which nothing listens. Another program may take it before it is used.
pub(crate) fn free() -> u16 {
    unused_address().port()
}

/// Returns an address of this machine at which nothing listens, so that connections to it fail.
///
/// The kernel assigns its port to no outgoing connection, and `lock-testkit` does not soon use it for another server.
///
/// # Panics
/// Panics if this machine has no free port.
#[must_use]
pub fn unused_address() -> SocketAddr {
    listen().local_addr().expect("a bound socket has an address")
}
