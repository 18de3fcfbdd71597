//! The price of the lock: the shop's own orders beside the strategy `conditional`, under the same load. Both run each key once,
//! record the answer with the order, and write an intent before the charge, so both survive a crash. They differ in what
//! decides about the stock: a lock with two fenced statements, or one conditional statement.
//!
//! Both fleets run throughout, and each round measures both, so a change in the machine's speed affects both.

use super::{
    site::Site,
    stage::{HOT, ScenarioError, Stage, StagePlan},
};
use crate::{
    load::{self, Entry, Extent, LoadPlan, OrderMix, Profile, Summary},
    report::{Comparison, Spread},
    strategy::Strategy,
};
use std::time::Duration;

/// Number of rounds. The median is reported.
const ROUNDS: usize = 5;
const CLIENTS: u32 = 32;
/// Number of units, enough for all rounds.
const PIECES: u32 = 1_000_000;
const SKUS: usize = 100;

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
pub(super) async fn run(
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
    let plan = LoadPlan {
        target: lane.stage.balancer.address(),
        profile: Profile::Closed { clients: CLIENTS },
        extent: Extent::Time(each),
        mix: OrderMix { skus, max_quantity: 1, keys: keys.to_owned(), seed },
        timeout: Duration::from_secs(30),
        aborts: None,
        journal: None,
        zero: lane.stage.zero,
    };
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
