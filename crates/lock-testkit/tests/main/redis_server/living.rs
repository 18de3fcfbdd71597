//! Tests of replies, pauses, kills and restarts of a server.

use super::*;
use lock_testkit::{RawRedis, RawValue, RedisServer};
use rustix::process::{Signal, kill_process};
use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    thread,
    time::Duration,
};

#[test]
fn replies_have_the_type_of_the_command() {
    let server = RedisServer::start();
    let mut raw = server.raw();
    assert_eq!(raw.command(&["SET", "b", "1"]).text(), "OK");
    assert_eq!(raw.command(&["INCR", "b"]).integer(), 2);
    assert_eq!(raw.command(&["GET", "b"]), RawValue::Text("2".into()));
    assert!(raw.command(&["GET", "nothing"]).is_nil());
    assert!(raw.command(&["NONSENSE"]).is_error());
    assert_eq!(raw.command(&["SET", "a", "x\r\n y"]).text(), "OK");
    let both = raw.command(&["MGET", "a", "nothing"]);
    assert_eq!(both.list(), [RawValue::Text("x\r\n y".into()), RawValue::Nil]);
    assert_eq!(server.keys(), ["a", "b"]);
    assert_eq!(server.version().split('.').count(), 3, "{}", server.version());
}

#[test]
fn a_paused_server_replies_after_it_is_resumed() {
    let server = RedisServer::start();
    let mut raw = server.raw();
    server.pause();
    server.pause();
    raw.send(&["INCR", "a"]).unwrap();
    let mut probe = TcpStream::connect(server.address()).unwrap(); // accepted by the kernel
    probe.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    probe.write_all(b"PING\r\n").unwrap();
    assert_eq!(probe.read(&mut [0; 9]).unwrap_err().kind(), ErrorKind::WouldBlock);
    server.resume();
    assert_eq!(raw.receive().unwrap().integer(), 1);
}

#[test]
fn a_server_restarted_from_a_dump_has_the_old_data() {
    let server = RedisServer::start();
    server.command(&["SET", "token", "1"]);
    let old = server.dump();
    server.command(&["SET", "token", "2"]);
    let (pid, port) = (server.pid(), server.port());
    server.restart_from(&old);
    assert_eq!(server.command(&["GET", "token"]).text(), "1");
    assert_ne!(server.pid(), pid);
    assert_eq!(server.port(), port);
    server.restart();
    assert!(server.keys().is_empty(), "the server is not persistent");
}

#[test]
fn a_persistent_server_keeps_its_last_dump() {
    let server = RedisServer::builder().persistent().start();
    server.command(&["SET", "a", "1"]);
    server.shutdown();
    assert_eq!(server.pid(), None);
    server.restart();
    server.command(&["SET", "b", "1"]);
    server.stop();
    server.stop();
    server.restart();
    assert_eq!(server.keys(), ["a"], "only dumped data must survive");
    server.restart_empty();
    assert!(server.keys().is_empty());
}

#[test]
fn a_retrying_client_does_not_take_the_servers_port() {
    let server = RedisServer::start();
    server.stop();
    for _ in 0..50_000 {
        TcpStream::connect(server.address()).unwrap_err();
    }
    server.restart();
}

#[test]
fn a_server_counts_only_foreign_connections() {
    let server = RedisServer::start();
    let mut raw = server.raw();
    assert_eq!((server.clients(), server.subscriptions()), (0, 0));
    let mut client = RawRedis::connect(server.address()).unwrap();
    client.command(&["SUBSCRIBE", "x"]);
    assert_eq!((server.clients(), server.subscriptions()), (1, 1));
    raw.command(&["PUBLISH", "x", "hello"]);
    assert_eq!(client.receive().unwrap().list()[2].text(), "hello");
    drop(client);
    soon("the subscription ends", || server.clients() == 0 && server.subscriptions() == 0);
}

#[test]
fn a_start_waits_for_a_taken_port() {
    let first = RedisServer::start();
    let port = first.port();
    let second = thread::spawn(move || RedisServer::builder().port(port).start());
    thread::sleep(Duration::from_millis(100)); // the first server's replies must not count as its own
    assert!(!second.is_finished());
    drop(first);
    assert_eq!(second.join().unwrap().port(), port);
}

#[test]
fn a_process_that_exited_can_be_restarted() {
    let server = RedisServer::start();
    kill_process(process(server.pid().unwrap()), Signal::KILL).unwrap();
    server.restart();
    assert_eq!(server.command(&["PING"]).text(), "PONG");
}

#[test]
fn setting_the_clock_affects_a_running_server() {
    let clock = lock_testkit::ClockShift::new();
    let server = RedisServer::builder().clock(&clock).start();
    let mut raw = server.raw();
    let mut ahead = || {
        let here = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let there: u64 = raw.command(&["TIME"]).list()[0].text().parse().unwrap();
        there.cast_signed() - here.cast_signed()
    };
    assert!(ahead().abs() <= 1);
    for seconds in [3_600, -3_600, 0] {
        clock.set(seconds);
        assert!((ahead() - seconds).abs() <= 1, "{seconds}");
    }
    server.command(&["SET", "x", "1", "PX", "600000"]);
    clock.set(601);
    assert_eq!(server.keys(), [""; 0], "expiry follows the wall clock");
}
