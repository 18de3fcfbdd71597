//! The parts that measure.
//!
//! The comparison is the price of the lock: the shop's own orders beside the strategy `conditional`, under the same load. Both
//! run each key once, record the answer with the order, and write an intent before the charge, so both survive a crash. They
//! differ in what decides about the stock: a lock with two fenced statements, or one conditional statement. Both fleets run
//! throughout, and each round measures both, so a change in the machine's speed affects both.
//!
//! The other part is a database stall under an open model, at half the capacity. A closed model would hide the stall.

use super::{
    site::Site,
    stage::{HOT, ScenarioError, Stage, StagePlan},
};
use crate::{
    faults::Fault,
    load::{self, Entry, Extent, LoadPlan, Profile, Summary},
    report::{Comparison, Spread, StallResult},
    strategy::Strategy,
};
use std::time::Duration;
use tokio::time::sleep;

/// Number of rounds of the comparison. The median is reported.
const ROUNDS: usize = 5;
const CLIENTS: u32 = 32;
/// Number of units, enough for all orders.
const PIECES: u32 = 1_000_000;
const SKUS: usize = 100;
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

/// The compared strategies and their titles.
const STRATEGIES: [(Strategy, &str); 2] =
    [(Strategy::Fenced, "lock and fence"), (Strategy::Conditional, "conditional statement")];

/// A strategy with its fleet and its measurements.
struct Lane {
    strategy: Strategy,
    title: &'static str,
    stage: Stage,
    entries: Vec<Entry>,
    hot: Vec<Summary>,
    many: Vec<Summary>,
}

/// Measures every strategy in every round, each time for the duration `each`.
pub(super) async fn comparison(
    site: &Site,
    seed: u64,
    each: Duration,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Vec<Comparison>, ScenarioError> {
    let skus: Vec<_> = (1..=SKUS).map(|number| format!("P-{number}")).collect();
    let products =
        || skus.iter().map(|sku| (sku.clone(), PIECES)).chain([(HOT.to_owned(), PIECES)]).collect();
    let mut lanes = Vec::new();
    for (strategy, title) in STRATEGIES {
        let plan = StagePlan {
            name: format!("compare-{}", strategy.name()),
            strategy,
            shops: 4,
            last_shop_by: None,
            products: products(),
            lease: Duration::from_secs(10),
            wait: Duration::from_secs(10),
        };
        let stage = Stage::open(site, &plan).await?;
        lanes.push(Lane { strategy, title, stage, entries: Vec::new(), hot: Vec::new(), many: Vec::new() });
    }
    for round in 1..=ROUNDS {
        say(&format!("comparison, round {round} of {ROUNDS}"));
        for lane in &mut lanes {
            let seed = seed.wrapping_add(round as u64);
            let hot = measure(lane, &format!("hot-{round}"), vec![HOT.to_owned()], seed, each).await?;
            lane.hot.push(hot);
            let many = measure(lane, &format!("many-{round}"), skus.clone(), seed, each).await?;
            lane.many.push(many);
        }
    }
    let mut all = Vec::new();
    for Lane { strategy, title, stage, entries, hot, many } in lanes {
        let audit = stage.close(site, &entries).await?;
        let breaches: Vec<_> = audit.findings().collect();
        for (load, runs) in [("one hot SKU", hot), ("100 SKUs", many)] {
            all.push(compare(strategy, title, load, &runs, &breaches));
        }
    }
    Ok(all)
}

async fn measure(
    lane: &mut Lane,
    keys: &str,
    skus: Vec<String>,
    seed: u64,
    each: Duration,
) -> Result<Summary, ScenarioError> {
    let profile = Profile::Closed { clients: CLIENTS };
    let plan = lane.stage.load(profile, Extent::Time(each), skus, keys, seed);
    let (summary, entries) = load::run(plan).await?;
    lane.entries.extend(entries);
    Ok(summary)
}

fn compare(strategy: Strategy, title: &str, load: &str, runs: &[Summary], breaches: &[String]) -> Comparison {
    let throughput = Spread::of(runs.iter().map(|run| run.throughput));
    let median = runs.iter().min_by(|a, b| {
        let away = |run: &Summary| (run.throughput - throughput.median).abs();
        away(a).total_cmp(&away(b))
    });
    Comparison {
        strategy: strategy.name().into(),
        title: title.into(),
        load: load.into(),
        throughput,
        p99_ms: Spread::of(runs.iter().map(|run| run.latency.p99_ms)),
        latency: median.map(|run| run.latency.clone()).unwrap_or_default(),
        failures: breaches.to_vec(),
    }
}

/// Measures the capacity, then the latencies with a stall at half the capacity.
pub(super) async fn stall(site: &Site, seed: u64) -> Result<StallResult, ScenarioError> {
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
        journal: Some(stage.directory.join(format!("{keys}.jsonl"))),
        ..stage.load(profile, extent, vec![HOT.into()], keys, seed)
    };
    let closed = load("capacity", Profile::Closed { clients: 16 }, Extent::Time(CAPACITY));
    let (capacity, mut entries) = load::run(closed).await?;
    let rate = capacity.throughput / 2.0;
    let open = load("stall", Profile::Open { rate }, Extent::Time(LASTS));
    let stall = async {
        sleep(AT).await;
        stage.arm(0, Fault::stall(STALL)).await
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
        stall_ms: Fault::stall(STALL).millis,
        failures,
    })
}
