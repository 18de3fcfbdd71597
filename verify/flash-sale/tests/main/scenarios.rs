//! Tests of the scenarios in real processes, on SQLite and PostgreSQL, and of the ways a run can
//! end.

use crate::run::{Run, is_stopped};
use flash_sale::{
    report::{self, Results},
    scenario::{AllPlan, DatabasePlan, Part, Site, SitePlan, Size, all},
};
use lock_testkit::RedisServer;
use std::env;

/// Returns the number of runs: ten in the long tier, otherwise one.
fn runs() -> u32 {
    if env::var_os("LOCK_LONG").is_some() { 10 } else { 1 }
}

async fn results(database: DatabasePlan, parts: Vec<Part>, runs: u32) -> Results {
    let program = env!("CARGO_BIN_EXE_flash-sale").into();
    let site = Site::open(SitePlan { program, redis: None, database }).await.unwrap();
    let plan = AllPlan { parts, runs, size: Size::Quick, seed: 42 };
    let results = all(&site, &plan, &|line| println!("{line}")).await.unwrap();
    site.close().await.unwrap();
    results
}

fn scenarios() -> Vec<Part> {
    Part::every().filter(|part| matches!(part, Part::Scenario(_) | Part::Jobs)).collect()
}

fn all_pass(results: &Results) {
    let failures: Vec<_> = results.failures().collect();
    assert!(failures.is_empty(), "{failures:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn controls_oversell_and_fenced_locks_do_not_on_sqlite() {
    let results = results(DatabasePlan::Sqlite, scenarios(), runs()).await;
    all_pass(&results);
    let fenced = results.scenarios.iter().find(|one| one.id == "S5").unwrap();
    assert!(fenced.stale.iter().all(|write| write.newer > write.token), "{:?}", fenced.stale);
    assert!(fenced.holds.iter().any(|hold| hold.is_stale), "the timeline does not show the stale holder");
    let hot = results.scenarios.iter().find(|one| one.id == "S3").unwrap();
    assert_eq!(hot.servers.len(), 4);
    let page = report::page(&results).unwrap();
    for server in &hot.servers {
        assert!(server.share >= 0.15, "{server:?}");
        assert!(page.contains(&format!(">{}<", server.pid)), "the page does not name {server:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn controls_oversell_and_fenced_locks_do_not_on_postgres() {
    let results = results(DatabasePlan::PrivatePostgres, scenarios(), runs()).await;
    all_pass(&results);
    assert!(
        results.scenarios.iter().any(|one| one.strategy == "units"),
        "the strategy `units` must run on PostgreSQL"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn database_stall_is_visible_in_the_open_model() {
    let results = results(DatabasePlan::Sqlite, vec![Part::Stall], 1).await;
    all_pass(&results);
    let stall = results.stall.unwrap();
    assert!(stall.load.latency.p99_ms >= 1_000.0 && stall.load.is_valid(), "{stall:?}");
}

#[test]
fn interrupted_run_leaves_nothing_behind() {
    let redis = RedisServer::start();
    let mut run = Run::start(&["all", "--quick", "--only", "S0,S3,S5", "--redis", &redis.url()], &[]);
    run.says("S0");
    run.until_shop(|_| true);
    run.signal("-INT");
    let ended = run.end();
    assert_eq!(ended.status.code(), Some(130), "{}", ended.err);
    ended.leaves_nothing();
    assert_eq!(redis.keys(), [""; 0]);
}

#[test]
fn run_with_a_suspended_shop_leaves_nothing_behind() {
    let redis = RedisServer::start();
    let run = Run::start(&["all", "--quick", "--only", "S4", "--redis", &redis.url()], &[]);
    run.until_shop(is_stopped);
    run.signal("-TERM");
    let ended = run.end();
    assert_eq!(ended.status.code(), Some(143), "{}", ended.err);
    ended.leaves_nothing();
    assert_eq!(redis.keys(), [""; 0]);
}

#[test]
fn shops_of_a_killed_run_exit() {
    let redis = RedisServer::start();
    let run = Run::start(&["all", "--quick", "--only", "S3", "--redis", &redis.url()], &[]);
    run.until_shop(|_| true);
    run.signal("-KILL");
    run.end().leaves_no_shop();
}

#[test]
fn error_without_a_redis_server_names_the_package() {
    let ended = Run::start(&["all", "--quick"], &[("REDIS_SERVER", "/nowhere/redis-server")]).end();
    assert_eq!(ended.status.code(), Some(2));
    assert!(ended.err.contains("apt-get install redis-server"), "{}", ended.err);
    ended.leaves_nothing();
}
