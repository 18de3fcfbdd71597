//! Tests of the options of a server.

use lock_testkit::{RawRedis, RedisServer};
use std::{os::unix::net::UnixStream, panic};

#[test]
fn a_server_has_its_configured_options() {
    let secret = r#"a "quoted" \ päss"#;
    let server = RedisServer::builder()
        .config("maxclients", "123")
        .config("client-output-buffer-limit", "pubsub 32mb 8mb 60")
        .config_line("rename-command FLUSHALL \"\"")
        .password(secret)
        .user("app on >other ~lock:* +@all")
        .unix_socket()
        .start();
    assert_eq!(server.command(&["CONFIG", "GET", "maxclients"]).list()[1].text(), "123");
    assert!(server.command(&["FLUSHALL"]).is_error());
    let mut stranger = RawRedis::connect(server.address()).unwrap();
    assert!(stranger.command(&["GET", "lock:a"]).is_error());
    assert_eq!(stranger.command(&["AUTH", secret]).text(), "OK");
    assert_eq!(stranger.command(&["AUTH", "app", "other"]).text(), "OK");
    assert!(stranger.command(&["GET", "lock:a"]).is_nil());
    assert!(stranger.command(&["GET", "a"]).is_error());
    UnixStream::connect(server.unix_socket_path().unwrap()).unwrap();
    server.restart();
    UnixStream::connect(server.unix_socket_path().unwrap()).unwrap();
}

#[test]
fn a_disabled_default_user_does_not_lock_out_the_testkit() {
    let server = RedisServer::builder().user("user default off").start();
    assert!(RawRedis::connect(server.address()).unwrap().command(&["PING"]).is_error());
    assert_eq!(server.command(&["PING"]).text(), "PONG");
}

#[test]
fn a_replica_copies_its_masters_data() {
    let master = RedisServer::builder().password("secret").start();
    master.command(&["SET", "a", "1"]);
    let replica = RedisServer::builder().replica_of(&master).start();
    assert_eq!(replica.command(&["GET", "a"]).text(), "1");
    assert!(replica.command(&["SET", "a", "2"]).is_error());
    assert_eq!(master.clients(), 0, "a replica must not count as a client");
}

#[test]
fn a_failed_start_reports_the_cause() {
    let start = || RedisServer::builder().config("no-such-directive", "1").start();
    let panic = panic::catch_unwind(start).unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    assert!(text.contains("no-such-directive"), "{text}");
}
