//! Tests of delayed and stalled bytes, which must arrive in order and not be lost.

use super::*;
use lock_testkit::Direction;
use std::{
    thread,
    time::{Duration, Instant},
};

#[test]
fn a_stalled_direction_holds_its_bytes() {
    let (server, proxy) = new();
    let (mut present, mut future) = (client(&proxy), RawRedis::connect(proxy.address()).unwrap());
    proxy.stall(Direction::ToServer);
    present.send(&["INCR", "a"]).unwrap();
    future.send(&["INCR", "b"]).unwrap();
    thread::sleep(Duration::from_millis(50)); // nothing may happen during this time
    assert!(server.keys().is_empty());
    assert_eq!(proxy.connections(), 2);
    proxy.pass();
    assert_eq!(present.receive().unwrap().integer(), 1);
    assert_eq!(future.receive().unwrap().integer(), 1);
}

#[test]
fn a_request_with_a_stalled_reply_is_executed() {
    let (server, proxy) = new();
    let mut client = client(&proxy);
    proxy.stall(Direction::ToClient);
    client.send(&["INCR", "a"]).unwrap();
    soon("the server executes the request", || get(&server, "a").is_some());
    client.send(&["INCR", "a"]).unwrap();
    soon("the server executes the second request", || get(&server, "a").as_deref() == Some("2"));
    proxy.pass();
    assert_eq!(client.receive().unwrap().integer(), 1);
    assert_eq!(client.receive().unwrap().integer(), 2);
}

#[test]
fn a_stalled_request_arrives_after_its_client_is_gone() {
    let (server, proxy) = new();
    let mut client = client(&proxy);
    proxy.stall(Direction::Both);
    client.send(&["INCR", "a"]).unwrap();
    drop(client);
    thread::sleep(Duration::from_millis(30)); // nothing may happen during this time
    assert_eq!((get(&server, "a"), server.clients()), (None, 1));
    proxy.pass();
    soon("the server executes the request", || get(&server, "a").is_some());
    soon("the server closes its client", || server.clients() == 0 && proxy.connections() == 0);
}

#[test]
fn a_cut_also_closes_a_stalled_connection() {
    let (server, proxy) = new();
    let mut client = client(&proxy);
    proxy.stall(Direction::Both);
    client.send(&["INCR", "a"]).unwrap();
    proxy.cut();
    closed(client.receive());
    proxy.pass();
    soon("the server closes its client", || server.clients() == 0);
    assert_eq!(get(&server, "a"), None);
}

#[test]
fn a_delay_keeps_the_order() {
    const WAY: Duration = Duration::from_millis(200);
    let (_server, proxy) = new();
    let mut client = client(&proxy);
    proxy.delay(WAY);
    let begin = Instant::now();
    for _ in 0..100 {
        client.send(&["INCR", "a"]).unwrap();
    }
    for n in 1..=100 {
        assert_eq!(client.receive().unwrap().integer(), n);
    }
    assert!(begin.elapsed() >= 2 * WAY, "both directions must be delayed");
    // Delayed one after the other, the requests would take two hundred delays.
    assert!(begin.elapsed() < 100 * WAY, "latency must not limit throughput: {:?}", begin.elapsed());
}

#[test]
fn removing_the_delay_delivers_immediately() {
    let (_server, proxy) = new();
    let mut client = client(&proxy);
    proxy.delay(Duration::from_secs(3_600));
    client.send(&["PING"]).unwrap();
    proxy.pass();
    assert_eq!(client.receive().unwrap().text(), "PONG");
}

/// The test's virtual time does not apply to the proxy, which does not run on the test's blocked
/// runtime.
#[tokio::test(start_paused = true)]
async fn a_paused_clock_does_not_affect_the_proxy() {
    let (_server, proxy) = new();
    proxy.delay(Duration::from_millis(5));
    let begin = Instant::now();
    client(&proxy);
    assert!(begin.elapsed() >= Duration::from_millis(10));
}
