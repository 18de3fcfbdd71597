//! Tests of the separate commands: shops, a balancer, a load, an audit, chaos and a report.

use crate::{
    program::{command, text},
    support::{Process, Sale},
};
use lock_testkit::RedisServer;
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Output, Stdio},
};

/// A balancer in a separate process. It is killed at the end of the test.
struct Balancer {
    child: Child,
    listening: String,
}

impl Balancer {
    fn before(shops: &[Process]) -> Self {
        let mut command = command(&["balancer", "--listen", "127.0.0.1:0"]);
        for shop in shops {
            command.args(["--server", &shop.ready.listening.to_string()]);
        }
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(ready["pid"], child.id());
        Self { child, listening: ready["listening"].as_str().unwrap().to_owned() }
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command and returns its output. Fails unless the command succeeds.
fn succeed(arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = command(arguments).output().unwrap();
    assert!(status.success(), "{arguments:?}: {}{}", text(&stdout), text(&stderr));
    text(&stdout).to_owned()
}

#[tokio::test]
async fn load_through_a_balancer_sells_out_and_passes_the_audit() {
    let (redis, sale) = (RedisServer::start(), Sale::sqlite(40).await);
    let shops = ["one", "two"].map(|name| Process::start(name, &sale, &redis, &[]));
    let balancer = Balancer::before(&shops);
    let directory = tempfile::tempdir().unwrap();
    let journal = directory.path().join("journal.jsonl");
    let journal = journal.to_str().unwrap();
    let target = format!("http://{}/", balancer.listening);
    let load = ["load", &target, "--clients", "8", "--orders", "60", "--sku", "P-0", "--journal", journal];
    let summary: Value = serde_json::from_str(&succeed(&load)).unwrap();
    assert_eq!(summary["acknowledged"], 40, "{summary}");
    let served = fs::read_to_string(journal).unwrap();
    for shop in &shops {
        assert!(
            served.contains(&format!("/{}\"", shop.ready.pid)),
            "the journal does not name {:?}",
            shop.ready
        );
    }
    let databases =
        ["--database", sale.databases.shop.reveal(), "--payments", sale.databases.payments.reveal()];
    let audit = succeed(&[&["audit", "--journal", journal], &databases[..]].concat());
    assert!(audit.contains("40 of 40 units sold"), "{audit}");
    assert!(audit.contains("0 rules broken"), "{audit}");
}

#[test]
fn load_without_a_server_counts_no_order_as_acknowledged() {
    let (directory, nobody) = (tempfile::tempdir().unwrap(), lock_testkit::unused_address().to_string());
    let journal = directory.path().join("journal.jsonl");
    let journal = journal.to_str().unwrap();
    let load = ["load", &nobody, "--clients", "2", "--orders", "4", "--sku", "P-0", "--journal", journal];
    let summary: Value = serde_json::from_str(&succeed(&load)).unwrap();
    assert_eq!(summary["acknowledged"], 0, "{summary}");
    assert_eq!(fs::read_to_string(journal).unwrap().lines().count(), 4);
}

#[test]
fn chaos_repeats_a_scenario_and_counts_the_failures() {
    let out = succeed(&["chaos", "S0", "--runs", "2"]);
    assert!(out.contains("2 scenarios were run and audited; 0 did not end as expected"), "{out}");
}

#[test]
fn report_of_earlier_results_equals_the_original_page() {
    let [run, later] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    succeed(&["all", "--quick", "--only", "S0", "--out", run.path().to_str().unwrap()]);
    let results = run.path().join("results.json");
    succeed(&["report", results.to_str().unwrap(), "--out", later.path().to_str().unwrap()]);
    let [first, second] = [&run, &later].map(|at| fs::read_to_string(at.path().join("report.html")).unwrap());
    assert!(first.contains("S0"));
    assert_eq!(first, second);
}

#[test]
fn report_of_an_invalid_file_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("results.json");
    fs::write(&file, "[]").unwrap();
    let ran = command(&["report", file.to_str().unwrap()]).output().unwrap();
    assert_eq!(ran.status.code(), Some(2));
    assert!(text(&ran.stderr).contains("results.json"), "{}", text(&ran.stderr));
}
