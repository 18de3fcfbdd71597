//! Tests of shop processes, which start together, pause, are killed and restart, and of their
//! cleanup.

use flash_sale::{
    balancer::Servers,
    fleet::{Fleet, FleetError, ShopCommand, ShopState},
};
use std::{fs, path::Path, time::Duration};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);

/// A program that prints an address and ends on request.
const SHOP: &str =
    r#"trap 'exit 0' TERM; echo '{"listening":"127.0.0.1:1","pid":1,"shop":"any"}'; read -r _; exit 0"#;

fn shell(script: &str) -> ShopCommand {
    // In `sh -c SCRIPT --shop NAME`, the words after the script are its arguments.
    ShopCommand {
        program: "/bin/sh".into(),
        arguments: ["-c", script].map(Into::into).to_vec(),
        secrets: Vec::new(),
    }
}

async fn fleet(script: &str, count: usize) -> (Result<Fleet, FleetError>, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    (Fleet::start(vec![shell(script); count], Servers::default(), directory.path()).await, directory)
}

fn exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

fn pids(fleet: &Fleet) -> Vec<u32> {
    fleet.statuses().into_iter().map(|shop| shop.pid).collect()
}

#[tokio::test]
async fn shops_start_together_and_shut_down_gracefully() {
    let (fleet, _directory) = fleet(SHOP, 3).await;
    let fleet = fleet.unwrap();
    let names: Vec<_> = fleet.statuses().into_iter().map(|shop| shop.name).collect();
    assert_eq!(names, ["shop-1", "shop-2", "shop-3"]);
    let pids = pids(&fleet);
    assert!(pids.iter().all(|pid| exists(*pid)));
    fleet.stop().await.unwrap();
    assert!(!pids.into_iter().any(exists));
}

#[tokio::test]
async fn suspended_shop_is_detected_and_ends_with_the_fleet() {
    let (fleet, _directory) = fleet(SHOP, 2).await;
    let fleet = fleet.unwrap();
    fleet.pause(1);
    assert_eq!(fleet.stopped(1, PATIENCE).await, ShopState::Stopped);
    assert_eq!(fleet.status(0).state, ShopState::Running);
    fleet.resume(1);
    assert_eq!(fleet.stopped(1, Duration::ZERO).await, ShopState::Running);
    fleet.pause(1);
    let pids = pids(&fleet);
    drop(fleet);
    assert!(!pids.into_iter().any(exists));
}

#[tokio::test]
async fn shop_that_ignores_shutdown_requests_is_killed() {
    let stubborn =
        SHOP.replace("exit 0' TERM", "' TERM").replace("read -r _; exit 0", "while :; do sleep 0.1; done");
    let (fleet, _directory) = fleet(&stubborn, 1).await;
    let fleet = fleet.unwrap();
    let pid = pids(&fleet)[0];
    drop(fleet);
    assert!(!exists(pid));
}

#[tokio::test]
async fn killed_shop_restarts_under_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let servers = Servers::default();
    let fleet = Fleet::start(vec![shell(SHOP); 2], servers.clone(), directory.path()).await.unwrap();
    let before = pids(&fleet);
    fleet.kill(0);
    assert_eq!(fleet.status(0).state, ShopState::Ended);
    fleet.revive(0).await.unwrap();
    assert_eq!(fleet.status(0).state, ShopState::Running);
    assert_ne!(pids(&fleet)[0], before[0]);
    assert_eq!(servers.shares().len(), 2);
}

#[tokio::test]
async fn failing_shop_stops_the_others_and_its_log_is_quoted() {
    // The second shop's name is the argument after `--shop`.
    let script = format!(r#"if [ "$1" = shop-2 ]; then echo 'no stock' >&2; exit 3; fi; {SHOP}"#);
    let (fleet, directory) = fleet(&script, 2).await;
    let error = fleet.unwrap_err().to_string();
    assert!(error.contains("shop-2 did not become ready") && error.contains("no stock"), "{error}");
    assert!(processes_in(directory.path()).is_empty());
}

#[tokio::test]
async fn unexpected_first_line_is_an_error() {
    let (fleet, _directory) = fleet("echo hello; read -r _", 1).await;
    assert!(fleet.unwrap_err().to_string().contains("printed `hello` instead of an address"));
}

/// Returns the processes that log to this directory.
fn processes_in(directory: &Path) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter(|process| {
        fs::read_link(process.path().join("fd/2")).is_ok_and(|log| log.starts_with(directory))
    })
    .filter_map(|process| process.file_name().to_str()?.parse().ok())
    .collect()
}
