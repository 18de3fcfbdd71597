//! The run of one scenario, from its first process to its verdict.

use super::{
    faults,
    holds::{holds, stale_writes},
    judge::{Evidence, failures},
    script::{Script, Trouble},
    site::Site,
    stage::{HOT, ScenarioError, Stage, StagePlan},
};
use crate::{
    load::{self, Aborts, Entry, Extent, LoadPlan, OrderMix, Outcome, Profile},
    report::{Fault, Figure, ScenarioResult},
};
use lock_inventory_demo::{audit::Audit, domain::Cents};
use lock_testkit::TcpProxy;
use std::time::Duration;
use tokio::time::Instant;

/// Lease in scenarios whose faults outlast it, short so a stopped holder soon loses its lock.
pub(super) const LEASE: Duration = Duration::from_secs(1);
/// Lease in the other scenarios. A busy machine can stop a process for longer than [`LEASE`].
const UNDISTURBED_LEASE: Duration = Duration::from_secs(10);
/// Maximum wait for the lock.
const WAIT: Duration = Duration::from_secs(10);
/// Time limit for a response.
const PATIENCE: Duration = Duration::from_secs(30);
/// Number of clients in the closed model.
const CLIENTS: u32 = 32;
/// Percentage of aborted requests.
const ABORTED: Aborts = Aborts { percent: 30 };

/// Runs a scenario once. `stock` is the total number of units.
pub(super) async fn run(
    site: &Site,
    script: &Script,
    name: &str,
    stock: u32,
    seed: u64,
) -> Result<ScenarioResult, ScenarioError> {
    let begin = Instant::now();
    let products = products(script, stock);
    let lease = if script.trouble == Trouble::None { UNDISTURBED_LEASE } else { LEASE };
    let cut = script.trouble == Trouble::RedisTrouble;
    let way = site.private_redis.as_ref().filter(|_| cut).map(|redis| redis.proxy());
    let plan = StagePlan {
        name: name.to_owned(),
        strategy: script.strategy,
        shops: script.shops,
        last_shop_by: way.as_ref().map(TcpProxy::url),
        products: products.clone(),
        lease,
        wait: WAIT,
    };
    let stage = Stage::open(site, &plan).await?;
    faults::before_load(script.trouble, &stage).await?;
    let load = LoadPlan {
        target: stage.balancer.address(),
        profile: Profile::Closed { clients: CLIENTS },
        extent: Extent::Orders(orders(script, stock)),
        mix: OrderMix {
            skus: products.into_iter().map(|(sku, _)| sku).collect(),
            max_quantity: 1,
            keys: name.to_owned(),
            seed,
        },
        timeout: PATIENCE,
        aborts: (script.trouble == Trouble::Aborts).then_some(ABORTED),
        journal: Some(stage.directory.join("journal.jsonl")),
        zero: stage.zero,
    };
    let mut points = Vec::new();
    let both = async {
        let load = async { load::run(load).await.map_err(ScenarioError::from) };
        tokio::try_join!(load, faults::trouble(script.trouble, site, &stage, way.as_ref()))
    };
    let ((summary, entries), done) = tokio::select! {
        both = both => both?,
        never = stage.watch(&mut points) => return Err(never.err().unwrap_or(ScenarioError::Never("the end of the load"))),
    };
    points.push(stage.look().await?);
    let servers = stage.shares();
    let audit = stage.close(site, &entries).await?;
    let stale = stale_writes(&entries);
    let hand_over = done.killed_ms.and_then(|at| next_sale(&entries, at));
    let seen = Evidence {
        script,
        audit: &audit,
        servers: &servers,
        entries: &entries,
        stale: &stale,
        ended_with_holder: done.killed_ms.is_some() && hand_over.is_none(),
    };
    Ok(ScenarioResult {
        id: script.id.into(),
        title: script.title.into(),
        strategy: script.strategy.name().into(),
        expected: script.verdict.to_string(),
        failures: failures(&seen),
        result: result(&audit.rows, stale.len()),
        initial: audit.rows.supplied,
        sold: audit.rows.sold,
        oversold: audit.rows.oversold,
        breaches: audit.findings().collect(),
        servers,
        load: summary,
        holds: if script.products == 1 { holds(&entries, &done.faults, lease) } else { Vec::new() },
        figures: figures(&audit.rows, &entries, &done.faults, hand_over),
        stale,
        stock: points,
        faults: done.faults,
        seconds: begin.elapsed().as_secs_f64(),
    })
}

/// Returns the products, which share the stock equally.
fn products(script: &Script, stock: u32) -> Vec<(String, u32)> {
    match script.products {
        1 => vec![(HOT.to_owned(), stock)],
        count => (1..=count).map(|number| (format!("P-{number}"), (stock / count).max(1))).collect(),
    }
}

/// Returns the number of orders, which exceeds the number of units. With many products, each must
/// be ordered often enough.
fn orders(script: &Script, stock: u32) -> u64 {
    let stock = u64::from(stock);
    if script.products == 1 { stock * 3 / 2 } else { stock * 3 }
}

/// Returns the time from killing a holder to the end of the next acknowledged order.
fn next_sale(entries: &[Entry], killed_ms: u64) -> Option<Duration> {
    let sales = entries.iter().filter(|entry| matches!(entry.outcome, Outcome::Acknowledged { .. }));
    let next = sales.map(Entry::end_us).filter(|end| *end > killed_ms * 1000).min()?;
    Some(Duration::from_micros(next - killed_ms * 1000))
}

fn result(audit: &Audit, stale: usize) -> String {
    let Audit { sold, supplied, oversold, .. } = audit;
    format!("sold {sold} of {supplied}, {oversold} of them twice, {stale} stale writes refused")
}

fn figures(audit: &Audit, entries: &[Entry], faults: &[Fault], hand_over: Option<Duration>) -> Vec<Figure> {
    let cents = |cents| Cents::new(cents).to_string();
    let money = format!(
        "{} charged = {} ordered + {} refunded",
        cents(audit.charged),
        cents(audit.ordered),
        cents(audit.refunded)
    );
    let mut figures = vec![Figure { name: "Money".into(), value: money }];
    if let Some(took) = hand_over {
        let value = format!("{} ms (lease: {} ms)", took.as_millis(), LEASE.as_millis());
        figures.push(Figure { name: "Time from killing the holder to the next sale".into(), value });
    }
    if !faults.is_empty() {
        let mut sales: Vec<_> = entries
            .iter()
            .filter(|entry| matches!(entry.outcome, Outcome::Acknowledged { .. }))
            .map(Entry::end_us)
            .collect();
        sales.sort_unstable();
        let gap = sales.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default();
        figures
            .push(Figure { name: "Longest time without a sale".into(), value: format!("{} ms", gap / 1000) });
    }
    let repeated = entries.iter().filter(|entry| entry.attempts > 1).count();
    if repeated > 0 {
        let value = format!("{repeated} of {}", entries.len());
        figures.push(Figure { name: "Orders that were aborted and repeated by the client".into(), value });
    }
    figures
}
