//! Tests that the proxy's faults have their documented effect on everything sent after they were
//! set.

mod closing;
mod losing;
mod slowing;

use crate::soon;
use lock_testkit::{RawRedis, RedisServer, TcpProxy};
use std::io::{self, ErrorKind};

fn new() -> (RedisServer, TcpProxy) {
    let server = RedisServer::start();
    let proxy = TcpProxy::start(server.address());
    (server, proxy)
}

fn client(proxy: &TcpProxy) -> RawRedis {
    let mut client = RawRedis::connect(proxy.address()).unwrap();
    assert_eq!(client.command(&["PING"]).text(), "PONG");
    client
}

fn get(server: &RedisServer, key: &str) -> Option<String> {
    let value = server.command(&["GET", key]);
    (!value.is_nil()).then(|| value.text().to_owned())
}

fn has(word: &'static str) -> impl Fn(&[u8]) -> bool + Send + Sync + 'static {
    move |chunk| chunk.windows(word.len()).any(|window| window == word.as_bytes())
}

/// Asserts that the connection was closed and did not time out.
fn closed<T: std::fmt::Debug>(answer: io::Result<T>) {
    let kind = answer.unwrap_err().kind();
    assert!(!matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{kind}");
}
