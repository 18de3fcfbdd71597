//! Which port is free: one that is nobody's, and that nobody else is given once it is down.

use lock_core::backend::ProcessId;
use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Below the ports that kernels give to whoever asks for any. From among those, a client that tries again and again
/// while its server is down would sooner or later get the server's own port, and be connected to itself; and one that
/// comes late would reach the proxy of another test.
const FIRST: u64 = 10_000;
const COUNT: u64 = 22_000;

/// A socket that listens on a free port.
pub(crate) fn listen() -> TcpListener {
    // Processes begin anywhere, and each goes on from there: so what it starts does not get one another's ports.
    static NEXT: LazyLock<AtomicU64> =
        LazyLock::new(|| AtomicU64::new(ProcessId::random().as_uuid().as_u64_pair().1 % COUNT));
    (0..COUNT)
        .map(|_| FIRST + NEXT.fetch_add(1, Relaxed) % COUNT)
        .filter_map(|port| u16::try_from(port).ok())
        .find_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok())
        .expect("of many thousand ports one is free")
}

/// A port on which nobody listens. Somebody else may take it before it is used.
pub(crate) fn free() -> u16 {
    unused_address().port()
}

/// An address of this machine at which nobody listens: connections to it fail.
///
/// The kernel gives its port to no outgoing connection, and `lock-testkit` to no other server soon.
///
/// # Panics
/// If this machine has no free port.
#[must_use]
pub fn unused_address() -> SocketAddr {
    listen().local_addr().expect("a bound socket has an address")
}
