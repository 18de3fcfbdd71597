//! Connections: opened, redirected and closed, each for its reason.

use super::*;
use lock_testkit::Direction;
use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    time::Duration,
};

#[test]
fn a_way_without_faults_passes_everything() {
    let (server, proxy) = new();
    let mut client = client(&proxy);
    let large = "x".repeat(3 << 20);
    assert_eq!(client.command(&["SET", "a", &large]).text(), "OK");
    assert_eq!(client.command(&["GET", "a"]).text(), large);
    assert_eq!((proxy.connections(), proxy.accepted(), server.clients()), (1, 1, 1));
    drop(client);
    soon("the server is told that its client is gone", || server.clients() == 0);
    soon("and that ends the connection", || proxy.connections() == 0);
    assert_eq!(proxy.accepted(), 1);
}

#[test]
fn a_cut_closes_present_connections_only() {
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
fn a_refused_client_is_let_in_again() {
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
fn a_new_target_gets_the_new_connections() {
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
    soon("nothing stays open", || proxy.connections() == 0);
    server.restart();
    client(&proxy);
}

#[test]
fn a_half_closed_client_still_gets_the_answer() {
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
    soon("nothing stays open", || proxy.connections() == 0);
}

#[test]
fn a_dropped_proxy_closes_everything() {
    let (server, proxy) = new();
    let (mut client, address) = (client(&proxy), proxy.address());
    proxy.stall(Direction::Both);
    drop(proxy);
    closed(client.try_command(&["PING"]));
    // Not immediately: a process forked by another test has a copy of the listener until it executes another program.
    soon("nobody listens", || TcpStream::connect(address).is_err());
    soon("the server is told", || server.clients() == 0);
}
