//! Tests of requests whose replies are lost, and of requests that arrive late.

use super::*;
use std::{thread, time::Duration};

#[test]
fn a_request_with_a_lost_reply_is_executed() {
    let (server, proxy) = new();
    let (mut one, mut other) = (client(&proxy), client(&proxy));
    proxy.lose_replies(has("INCR"));
    closed(one.try_command(&["INCR", "a"]));
    assert_eq!(get(&server, "a").as_deref(), Some("1"));
    assert_eq!(proxy.lost(), 1);
    assert_eq!(other.command(&["GET", "a"]).text(), "1", "other clients must not be affected");
    proxy.pass();
    assert_eq!(other.command(&["INCR", "a"]).integer(), 2);
    soon("the server closes its client", || server.clients() == 1);
}

#[test]
fn a_reply_behind_other_replies_is_lost_too() {
    let (server, proxy) = new();
    let mut client = client(&proxy);
    client.command(&["SET", "large", &"x".repeat(1 << 20)]);
    proxy.lose_replies(has("INCR"));
    for _ in 0..20 {
        client.send(&["GET", "large"]).unwrap();
    }
    // Send it as a separate chunk, or the earlier replies would be lost too.
    thread::sleep(Duration::from_millis(20));
    client.send(&["INCR", "a"]).unwrap();
    closed((0..21).try_for_each(|_| client.receive().map(drop)));
    soon("the server executes the request", || get(&server, "a").is_some());
    assert_eq!(proxy.lost(), 1);
}

#[test]
fn a_reply_that_never_arrives_counts_as_lost() {
    let (server, proxy) = new();
    let mut client = client(&proxy);
    proxy.lose_replies(has("INCR"));
    server.pause();
    closed(client.try_command(&["INCR", "a"]));
    assert_eq!(proxy.lost(), 1);
    server.resume();
    soon("the request is delivered", || get(&server, "a").is_some());
}

#[test]
fn a_captured_request_arrives_after_its_client_gave_up() {
    let (server, proxy) = new();
    let (mut first, mut second) = (client(&proxy), client(&proxy));
    proxy.capture(has("SET"));
    closed(first.try_command(&["SET", "a", "first"]));
    closed(second.try_command(&["SET", "a", "second"]));
    assert_eq!((proxy.captured(), server.clients()), (2, 2));
    soon("the clients are disconnected", || proxy.connections() == 0);
    proxy.pass();
    proxy.cut();
    assert_eq!(client(&proxy).command(&["SET", "a", "third"]).text(), "OK");
    assert_eq!((proxy.captured(), get(&server, "a").as_deref()), (2, Some("third")));
    assert_eq!(proxy.deliver_captured(), 2);
    assert_eq!(get(&server, "a").as_deref(), Some("second"), "the chunks must be delivered in order");
    assert_eq!((proxy.captured(), proxy.deliver_captured()), (0, 0));
    soon("the server closes its client", || server.clients() == 0);
}

#[test]
fn a_captured_request_to_a_dead_server_is_not_delivered() {
    let (server, proxy) = new();
    proxy.capture(has("SET"));
    closed(client(&proxy).try_command(&["SET", "a", "1"]));
    server.restart();
    assert_eq!(proxy.deliver_captured(), 0);
    assert!(server.keys().is_empty());
}
