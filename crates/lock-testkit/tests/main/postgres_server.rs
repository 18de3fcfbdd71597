//! Tests of the PostgreSQL server: it accepts connections, can be restarted, and leaves nothing behind.

use crate::soon;
use lock_testkit::PostgresServer;
use std::{
    env,
    io::{BufRead, BufReader, ErrorKind},
    net::TcpStream,
    path::Path,
    process::{Command, Stdio},
    thread,
};

#[test]
fn dropped_server_leaves_no_directory() {
    let server = PostgresServer::start();
    assert!(server.version().contains("PostgreSQL"), "{}", server.version());
    let (address, directory) = (server.address(), server.directory().to_owned());
    TcpStream::connect(address).unwrap();
    assert!(directory.exists() && server.pid().is_some(), "{server:?}");
    drop(server);
    assert!(!directory.exists());
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn restart_keeps_address_and_databases() {
    let server = PostgresServer::start();
    let url = server.database("shop");
    assert_eq!(url, server.database("shop"), "an existing database is no error");
    let (address, base) = (server.address(), server.directory().join("data/base"));
    let databases = || base.read_dir().unwrap().count();
    let before = databases();
    server.stop();
    assert_eq!(server.pid(), None);
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    server.restart();
    assert_eq!((server.address(), server.database("shop")), (address, url));
    assert_eq!(databases(), before, "{}", server.log());
}

/// Runs itself in another process and kills that process.
#[test]
fn server_of_a_killed_test_process_ends() {
    const INSIDE: &str = "LOCK_TESTKIT_TO_BE_KILLED";
    if env::var_os(INSIDE).is_some() {
        let server = PostgresServer::start();
        println!("\nSERVER {} {}", server.address(), server.directory().display());
        loop {
            thread::park();
        }
    }
    let mut parent = Command::new(env::current_exe().unwrap())
        .args(["--exact", "postgres_server::server_of_a_killed_test_process_ends", "--nocapture"])
        .env(INSIDE, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find_map(|line| Some(line.strip_prefix("SERVER ")?.to_owned())).unwrap();
    let (address, directory) = line.split_once(' ').unwrap();
    TcpStream::connect(address).unwrap();
    assert!(Path::new(directory).exists());

    parent.kill().unwrap();
    parent.wait().unwrap();
    soon("the server is gone", || TcpStream::connect(address).is_err());
    soon("its directory is gone", || !Path::new(directory).exists());
}
