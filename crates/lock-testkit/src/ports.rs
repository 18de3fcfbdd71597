//! Selection of free ports that are unlikely to be reused by other programs.

use lock_core::backend::ProcessId;
use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// The first port, below the ephemeral range. With an ephemeral port, a client that retries a
/// stopped server could be assigned the server's own port and connect to itself. A late client
/// could also reach another test's proxy.
const FIRST: u64 = 10_000;
const COUNT: u64 = 22_000;

/// Returns a socket that listens on a free port.
pub(crate) fn listen() -> TcpListener {
    // Each process starts at a random port and counts up, so concurrent test processes rarely
    // collide.
    static NEXT: LazyLock<AtomicU64> =
        LazyLock::new(|| AtomicU64::new(ProcessId::random().as_uuid().as_u64_pair().1 % COUNT));
    (0..COUNT)
        .map(|_| FIRST + NEXT.fetch_add(1, Relaxed) % COUNT)
        .filter_map(|port| u16::try_from(port).ok())
        .find_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok())
        .expect("no free port")
}

/// Returns an unused port. Another program can take it before it is used.
pub(crate) fn free() -> u16 {
    unused_address().port()
}

/// Returns a local address without a listener, for connections that must fail.
///
/// The kernel does not assign its port to outgoing connections, and `lock-testkit` does not reuse
/// it soon.
///
/// # Panics
/// Panics if this machine has no free port.
#[must_use]
pub fn unused_address() -> SocketAddr {
    listen().local_addr().expect("a bound socket has an address")
}
