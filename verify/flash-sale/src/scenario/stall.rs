//! A database stall under an open model, at half the capacity. A closed model would hide the stall.

use super::{
    site::Site,
    stage::{HOT, ScenarioError, Stage, StagePlan},
};
use crate::{
    load::{self, Extent, LoadPlan, OrderMix, Profile},
    report::StallResult,
    strategy::Strategy,
};
use serde_json::json;
use std::time::Duration;
use tokio::time::sleep;

/// Duration of the stall, inside a shop's critical section.
const STALL: Duration = Duration::from_secs(2);
/// Start of the stall, after the start of the load.
const AT: Duration = Duration::from_secs(10);
/// Duration of the load.
const LASTS: Duration = Duration::from_secs(30);
/// Maximum wait for the lock, longer than the stall so it does not cause refusals.
const WAIT: Duration = Duration::from_secs(6);
/// Time for which the capacity is measured.
const CAPACITY: Duration = Duration::from_secs(3);
/// Minimum 99th percentile, in milliseconds, for a visible stall.
const SHOWN_MS: f64 = 1_000.0;
const PIECES: u32 = 1_000_000;

/// Measures the capacity, then the latencies with a stall at half the capacity.
pub(super) async fn run(site: &Site, seed: u64) -> Result<StallResult, ScenarioError> {
    let plan = StagePlan {
        name: "stall".into(),
        strategy: Strategy::Fenced,
        shops: 4,
        last_shop_by: None,
        products: vec![(HOT.into(), PIECES)],
        lease: Duration::from_secs(10),
        wait: WAIT,
    };
    let stage = Stage::open(site, &plan).await?;
    let load = |keys: &str, profile, extent| LoadPlan {
        target: stage.balancer.address(),
        profile,
        extent,
        mix: OrderMix { skus: vec![HOT.into()], max_quantity: 1, keys: keys.into(), seed },
        timeout: Duration::from_secs(30),
        aborts: None,
        journal: Some(stage.directory.join(format!("{keys}.jsonl"))),
        zero: stage.zero,
    };
    let closed = load("capacity", Profile::Closed { clients: 16 }, Extent::Time(CAPACITY));
    let (capacity, mut entries) = load::run(closed).await?;
    let rate = capacity.throughput / 2.0;
    let open = load("stall", Profile::Open { rate }, Extent::Time(LASTS));
    let stall = async {
        sleep(AT).await;
        let millis = u64::try_from(STALL.as_millis()).unwrap_or(u64::MAX);
        stage.control(0, "/control/fault", &json!({ "kind": "stall", "millis": millis, "once": true })).await
    };
    let ((summary, more), ()) =
        tokio::try_join!(async { load::run(open).await.map_err(ScenarioError::from) }, stall)?;
    entries.extend(more);
    let audit = stage.close(site, &entries).await?;
    let mut failures: Vec<_> = audit.findings().collect();
    if let Some(rate) = summary.rate.filter(|rate| !rate.is_valid()) {
        failures.push(format!(
            "this run is invalid: {:.1} of {:.1} orders per second were sent",
            rate.achieved, rate.requested
        ));
    }
    if summary.latency.p99_ms < SHOWN_MS {
        failures.push(format!("the p99 of {:.0} ms hides a stall of {STALL:?}", summary.latency.p99_ms));
    }
    Ok(StallResult {
        capacity: capacity.throughput,
        load: summary,
        stall_ms: u64::try_from(STALL.as_millis()).unwrap_or(u64::MAX),
        failures,
    })
}
