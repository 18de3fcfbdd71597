//! Delayed bytes are late in both directions, in order, and not lost.

use super::*;
use lock_testkit::Direction;
use std::{
    thread,
    time::{Duration, Instant},
};

#[test]
fn a_stalled_way_keeps_its_bytes() {
    let (server, proxy) = new();
    let (mut present, mut future) = (client(&proxy), RawRedis::connect(proxy.address()).unwrap());
    proxy.stall(Direction::ToServer);
    present.send(&["INCR", "a"]).unwrap();
    future.send(&["INCR", "b"]).unwrap();
    thread::sleep(Duration::from_millis(50)); // in which nothing may happen
    assert!(server.keys().is_empty());
    assert_eq!(proxy.connections(), 2);
    proxy.pass();
    assert_eq!(present.receive().unwrap().integer(), 1);
    assert_eq!(future.receive().unwrap().integer(), 1);
}

#[test]
fn a_stalled_answer_was_carried_out() {
    let (server, proxy) = new();
    let mut client = client(&proxy);
    proxy.stall(Direction::ToClient);
    client.send(&["INCR", "a"]).unwrap();
    soon("the server has done it", || get(&server, "a").is_some());
    client.send(&["INCR", "a"]).unwrap();
    soon("and again", || get(&server, "a").as_deref() == Some("2"));
    proxy.pass();
    assert_eq!(client.receive().unwrap().integer(), 1);
    assert_eq!(client.receive().unwrap().integer(), 2);
}

#[test]
fn a_stalled_request_arrives_though_its_client_is_gone() {
    let (server, proxy) = new();
    let mut client = client(&proxy);
    proxy.stall(Direction::Both);
    client.send(&["INCR", "a"]).unwrap();
    drop(client);
    thread::sleep(Duration::from_millis(30)); // in which nothing may happen
    assert_eq!((get(&server, "a"), server.clients()), (None, 1));
    proxy.pass();
    soon("the server does it", || get(&server, "a").is_some());
    soon("and hears that its client is gone", || server.clients() == 0 && proxy.connections() == 0);
}

#[test]
fn a_cut_ends_also_a_stalled_connection() {
    let (server, proxy) = new();
    let mut client = client(&proxy);
    proxy.stall(Direction::Both);
    client.send(&["INCR", "a"]).unwrap();
    proxy.cut();
    closed(client.receive());
    proxy.pass();
    soon("the server hears it", || server.clients() == 0);
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
    assert!(begin.elapsed() >= 2 * WAY, "there and back");
    // One after the other they would take two hundred delays.
    assert!(begin.elapsed() < 100 * WAY, "a long way is not a narrow one: {:?}", begin.elapsed());
}

#[test]
fn removing_the_delay_delivers_at_once() {
    let (_server, proxy) = new();
    let mut client = client(&proxy);
    proxy.delay(Duration::from_secs(3_600));
    client.send(&["PING"]).unwrap();
    proxy.pass();
    assert_eq!(client.receive().unwrap().text(), "PONG");
}

/// A test's virtual time does not apply here, and its runtime, which this very call blocks, is not ours.
#[tokio::test(start_paused = true)]
async fn a_paused_clock_does_not_concern_the_proxy() {
    let (_server, proxy) = new();
    proxy.delay(Duration::from_millis(5));
    let begin = Instant::now();
    client(&proxy);
    assert!(begin.elapsed() >= Duration::from_millis(10));
}
