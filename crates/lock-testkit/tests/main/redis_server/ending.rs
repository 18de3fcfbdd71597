//! Tests that no process or directory is left behind, however a test ends.

use super::*;
use lock_testkit::RedisServer;
use std::{
    env,
    io::{BufRead, BufReader, ErrorKind},
    net::TcpStream,
    path::Path,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
};

#[test]
fn a_dropped_server_leaves_no_process_and_no_directory() {
    let server = RedisServer::start();
    let (pid, port, directory) = (server.pid().unwrap(), server.port(), server.directory().to_owned());
    assert!(is_there(pid) && directory.exists());
    assert!(server.log().contains("Ready to accept connections"), "{}", server.log());
    drop(server);
    assert!(!is_there(pid) && !directory.exists());
    assert_eq!(TcpStream::connect(("127.0.0.1", port)).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_test_that_panics_leaves_no_process_and_no_directory() {
    let (tell, told) = mpsc::channel();
    let test = thread::spawn(move || {
        let server = RedisServer::start();
        server.pause(); // must be killed even while paused
        tell.send((server.pid().unwrap(), server.directory().to_owned())).unwrap();
        panic!("this panic is part of the test");
    });
    let (pid, directory) = told.recv().unwrap();
    test.join().unwrap_err();
    assert!(!is_there(pid) && !directory.exists());
}

/// Runs itself in another process and kills that process.
#[test]
fn the_server_of_a_killed_test_process_ends() {
    const INSIDE: &str = "LOCK_TESTKIT_TO_BE_KILLED";
    if env::var_os(INSIDE).is_some() {
        let server = RedisServer::start();
        println!("\nSERVER {} {} {}", server.pid().unwrap(), server.port(), server.directory().display());
        loop {
            thread::park();
        }
    }
    let mut parent = Command::new(env::current_exe().unwrap())
        .args(["--exact", "redis_server::ending::the_server_of_a_killed_test_process_ends", "--nocapture"])
        .env(INSIDE, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find_map(|line| Some(line.strip_prefix("SERVER ")?.to_owned())).unwrap();
    let [pid, port, directory] = line.splitn(3, ' ').collect::<Vec<_>>().try_into().unwrap();
    let (pid, port): (u32, u16) = (pid.parse().unwrap(), port.parse().unwrap());
    assert!(is_there(pid) && Path::new(directory).exists());

    parent.kill().unwrap();
    parent.wait().unwrap();
    // Do not check the process id, because orphans may be reaped late.
    soon("the server is gone", || TcpStream::connect(("127.0.0.1", port)).is_err());
    soon("its directory is gone", || !Path::new(directory).exists());
}
