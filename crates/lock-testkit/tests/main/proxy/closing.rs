//! Tests of opening, redirecting and closing connections.

use super::*;
use lock_testkit::Direction;
use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    time::Duration,
};

#[test]
fn a_proxy_without_faults_passes_everything() {
    let (server, proxy) = new();
    let mut client = client(&proxy);
    let large = "x".repeat(3 << 20);
    assert_eq!(client.command(&["SET", "a", &large]).text(), "OK");
    assert_eq!(client.command(&["GET", "a"]).text(), large);
    assert_eq!((proxy.connections(), proxy.accepted(), server.clients()), (1, 1, 1));
    drop(client);
    soon("the server closes its client", || server.clients() == 0);
    soon("the proxy closes the connection", || proxy.connections() == 0);
    assert_eq!(proxy.accepted(), 1);
}

#[test]
fn a_cut_closes_current_connections_only() {
    let (server, proxy) = new();
    let (mut one, mut two) = (client(&proxy), client(&proxy));
    proxy.cut();
    assert_eq!(proxy.connections(), 0);
    closed(one.try_command(&["SET", "a", "1"]));
    closed(two.try_command(&["SET", "a", "1"]));
    client(&proxy);
    assert_eq!(get(&server, "a"), None);
}

#[test]
fn a_refused_client_can_connect_again() {
    let (server, proxy) = new();
    let mut present = client(&proxy);
    proxy.refuse();
    closed(present.try_command(&["SET", "a", "1"]));
    closed(RawRedis::connect(proxy.address()).unwrap().try_command(&["SET", "a", "1"]));
    proxy.pass();
    client(&proxy);
    assert_eq!(get(&server, "a"), None);
    assert_eq!(proxy.accepted(), 2);
}

#[test]
fn new_connections_go_to_the_new_target() {
    let (old, proxy) = new();
    let fresh = RedisServer::start();
    let mut before = client(&proxy);
    proxy.retarget(fresh.address());
    client(&proxy).command(&["SET", "a", "fresh"]);
    before.command(&["SET", "a", "old"]);
    assert_eq!((get(&old, "a").as_deref(), get(&fresh, "a").as_deref()), (Some("old"), Some("fresh")));
}

#[test]
fn a_dead_server_closes_its_clients() {
    let (server, proxy) = new();
    let mut present = client(&proxy);
    server.stop();
    closed(present.receive());
    closed(RawRedis::connect(proxy.address()).and_then(|mut client| client.try_command(&["PING"])));
    soon("all connections are closed", || proxy.connections() == 0);
    server.restart();
    client(&proxy);
}

#[test]
fn a_half_closed_client_still_receives_the_reply() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = TcpProxy::start(server.local_addr().unwrap());
    proxy.delay(Duration::from_millis(5));
    let mut client = TcpStream::connect(proxy.address()).unwrap();
    client.write_all(b"question").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let (mut connection, _) = server.accept().unwrap();
    let mut heard = String::new();
    connection.read_to_string(&mut heard).unwrap();
    connection.write_all(b"answer").unwrap();
    drop(connection);
    assert_eq!(heard, "question");
    heard.clear();
    client.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "answer");
    soon("all connections are closed", || proxy.connections() == 0);
}

#[test]
fn a_dropped_proxy_closes_everything() {
    let (server, proxy) = new();
    let (mut client, address) = (client(&proxy), proxy.address());
    proxy.stall(Direction::Both);
    drop(proxy);
    closed(client.try_command(&["PING"]));
    // Not immediate: a process forked by another test holds a copy of the listener until `exec`.
    soon("the listener is closed", || TcpStream::connect(address).is_err());
    soon("the server closes its client", || server.clients() == 0);
}
