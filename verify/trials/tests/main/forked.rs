//! Copies of a process, made by a fork.

use lock_testkit::{RedisQuorum, RedisServer};
use lock_trials::{cli::Client, process::Process};
use std::process::Command;

const CLIENTS: [Client; 2] = [Client::Fred, Client::RedisRs];

fn twins(client: Client, url: &str, words: &[&str]) -> Process {
    let program = env!("CARGO_BIN_EXE_lock-twins");
    Process::start(Command::new(program).args(["--client", client.name(), url]).args(words))
}

/// Returns `true` if the copy of a process gets the lock that its original holds.
fn copy_gets_the_lock(client: Client, url: &str, words: &[&str]) -> bool {
    let mut twins = twins(client, url, &[&["copy"], words].concat());
    let lines = [twins.expect("twin"), twins.expect("twin")];
    let [original, copy] = [false, true].map(|copy| {
        let line = lines.iter().find(|line| line.is("copy") == copy);
        line.expect("both report").text("lease")
    });
    assert!(!original.is_empty() && (copy.is_empty() || copy == original), "{lines:?}");
    !copy.is_empty()
}

#[test]
fn copy_waits_for_the_lock_of_its_original() {
    for client in CLIENTS {
        let server = RedisServer::start();
        assert!(!copy_gets_the_lock(client, &server.url(), &[]), "{client:?}");
    }
}

#[test]
fn copy_waits_for_the_lock_of_its_original_on_a_quorum() {
    let quorum = RedisQuorum::start(3);
    // Otherwise a new quorum first waits for a lease.
    let url = format!("{}?durable=true", quorum.url());
    assert!(!copy_gets_the_lock(Client::RedisRs, &url, &[]));
}

/// The tests above can fail.
#[test]
fn copy_with_ids_drawn_ahead_gets_the_lock_as_well() {
    let server = RedisServer::start();
    assert!(copy_gets_the_lock(Client::RedisRs, &server.url(), &["--drawn-ahead"]));
    let quorum = RedisQuorum::start(3);
    let url = format!("{}?durable=true", quorum.url());
    assert!(copy_gets_the_lock(Client::RedisRs, &url, &["--drawn-ahead"]));
}

#[test]
fn forked_child_needs_a_factory_of_its_own_and_its_parent_keeps_its_locks() {
    for client in CLIENTS {
        let server = RedisServer::start();
        let mut twins = twins(client, &server.url(), &["inherit"]);
        let child = twins.expect("forked");
        let errors = child.texts("errors");
        assert_eq!(errors.len(), 3, "of a release, an acquire and a query");
        assert!(errors.iter().all(|error| error.starts_with("Forked: ")), "{client:?}: {errors:?}");
        assert!(child.is("held") && child.is("clean") && child.is("anew"), "{child:?}");
        for _ in 0..2 {
            let parent = twins.expect("kept");
            assert!(parent.is("kept") && parent.is("was_held"), "{client:?}: {parent:?}");
        }
    }
}
