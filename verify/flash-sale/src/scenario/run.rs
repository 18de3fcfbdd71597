//! The run of one scenario, from its first process to its verdict. Faults come at exact points: a shop pauses itself inside its
//! critical section, and the following steps wait for actions of other shops instead of fixed times.

use super::{
    judge::{Evidence, failures, holds, stale_writes},
    script::{Script, Trouble},
    site::Site,
    stage::{HOT, ScenarioError, Stage, StagePlan},
};
use crate::{
    faults,
    fleet::ShopState,
    load::{self, Aborts, Entry, Extent, LoadPlan, Outcome, Profile},
    report::{Fault, Figure, ScenarioResult},
};
use lock_inventory_demo::{audit::Audit, domain::Cents};
use lock_testkit::TcpProxy;
use std::time::Duration;
use tokio::{
    task::block_in_place,
    time::{Instant, sleep},
};

/// Lease in scenarios whose faults outlast it, short so a stopped holder soon loses its lock.
pub(super) const LEASE: Duration = Duration::from_secs(1);
/// Lease in the other scenarios. A busy machine can stop a process for longer than [`LEASE`].
const UNDISTURBED_LEASE: Duration = Duration::from_secs(10);
/// Maximum wait for the lock.
const WAIT: Duration = Duration::from_secs(10);
/// Number of clients in the closed model.
const CLIENTS: u32 = 32;
/// Percentage of aborted requests.
const ABORTED: Aborts = Aborts { percent: 30 };
/// Number of units sold before the first fault.
const BEFORE: i64 = 10;
/// Number of units sold by other shops before a stopped holder is resumed.
const MEANWHILE: i64 = 15;
/// Stall of the section during which a stale write arrives.
const SECTION: Duration = Duration::from_millis(1_500);
/// Duration of a payment that exceeds the TTL of the strategy `setnx`.
const SLOW: Duration = Duration::from_millis(70);
/// Time for which a shop is disconnected from Redis.
const CUT: Duration = Duration::from_millis(1_500);
/// Time limit for a shop to reach its pause.
const PAUSED_WITHIN: Duration = Duration::from_secs(20);

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
    before_load(script.trouble, &stage).await?;
    let (profile, extent) = (Profile::Closed { clients: CLIENTS }, Extent::Orders(orders(script, stock)));
    let skus = products.into_iter().map(|(sku, _)| sku).collect();
    let load = LoadPlan {
        aborts: (script.trouble == Trouble::Aborts).then_some(ABORTED),
        journal: Some(stage.directory.join("journal.jsonl")),
        ..stage.load(profile, extent, skus, name, seed)
    };
    let mut points = Vec::new();
    let both = async {
        let load = async { load::run(load).await.map_err(ScenarioError::from) };
        tokio::try_join!(load, trouble(script.trouble, site, &stage, way.as_ref()))
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

/// The faults that occurred, and the time at which a holder was killed.
#[derive(Debug, Default)]
struct Done {
    faults: Vec<Fault>,
    killed_ms: Option<u64>,
}

/// Injects the script's faults while the load runs.
async fn trouble(
    trouble: Trouble,
    site: &Site,
    stage: &Stage,
    way: Option<&TcpProxy>,
) -> Result<Done, ScenarioError> {
    let mut done = Done::default();
    match trouble {
        Trouble::None | Trouble::Aborts | Trouble::SlowPayments => {}
        Trouble::Pause => done.faults.push(pause(stage).await?),
        Trouble::PauseIntoSection => done.faults.push(pause_into_section(stage).await?),
        Trouble::BothPauses => {
            done.faults.push(pause(stage).await?);
            done.faults.push(pause_into_section(stage).await?);
            done.faults.push(release_by_force(site, stage).await?);
        }
        Trouble::Kill => {
            let (fault, at) = kill(stage).await?;
            done.faults.push(fault);
            done.killed_ms = Some(at);
        }
        Trouble::RedisTrouble => done.faults = redis(site, stage, way).await?,
    }
    Ok(done)
}

/// Injects the faults that precede the load, which are slow payments.
async fn before_load(trouble: Trouble, stage: &Stage) -> Result<(), ScenarioError> {
    if trouble == Trouble::SlowPayments {
        for shop in 0..stage.fleet.len() {
            stage.arm(shop, faults::Fault::stalls(SLOW)).await?;
        }
    }
    Ok(())
}

/// Pauses the holder until other shops have sold.
async fn pause(stage: &Stage) -> Result<Fault, ScenarioError> {
    let from_ms = stop_holder(stage).await?;
    let sold = stage.look().await?.sold;
    stage.until_sold(sold + MEANWHILE).await?;
    stage.fleet.resume(0);
    Ok(Fault { from_ms, to_ms: stage.now_ms(), what: "shop-1 is stopped in its critical section".into() })
}

/// Pauses the holder until another holder is between its read and its write.
async fn pause_into_section(stage: &Stage) -> Result<Fault, ScenarioError> {
    let from_ms = stop_holder(stage).await?;
    for shop in 1..stage.fleet.len() {
        stage.arm(shop, faults::Fault::stall(SECTION)).await?;
    }
    stage.until_held(1..stage.fleet.len()).await?;
    // The next holder reads immediately, but writes only after its stall.
    sleep(SECTION / 4).await;
    stage.fleet.resume(0);
    let to_ms = stage.now_ms();
    for shop in 1..stage.fleet.len() {
        stage.arm(shop, faults::Fault::NONE).await?;
    }
    let what = "shop-1 is stopped in its critical section, and resumed during another shop's".into();
    Ok(Fault { from_ms, to_ms, what })
}

/// Releases the holder's lock by force during its payment, as an operator can. The holder goes on while others sell, so its
/// write comes too late, and the answer says so. After a pause, the lock of its idempotency key was lost too, and that layer
/// answers for it.
async fn release_by_force(site: &Site, stage: &Stage) -> Result<Fault, ScenarioError> {
    stage.arm(0, faults::Fault::stall(SECTION)).await?;
    stage.until_held(0..1).await?;
    let from_ms = stage.now_ms();
    let locks = stage.locks(site).await?;
    locks.force_release(format!("product:{HOT}")).await?;
    locks.shutdown().await;
    let sold = stage.look().await?.sold;
    stage.until_sold(sold + 1).await?;
    // Its write is refused when its payment has ended.
    sleep(SECTION).await;
    Ok(Fault {
        from_ms,
        to_ms: stage.now_ms(),
        what: "shop-1's lock is released by force during its payment".into(),
    })
}

/// Kills the holder while it is paused in its section.
async fn kill(stage: &Stage) -> Result<(Fault, u64), ScenarioError> {
    let from_ms = stop_holder(stage).await?;
    stage.fleet.kill(0);
    let killed = stage.now_ms();
    let sold = stage.look().await?.sold;
    stage.until_sold(sold + 1).await?;
    Ok((
        Fault { from_ms, to_ms: stage.now_ms(), what: "shop-1 is killed in its critical section".into() },
        killed,
    ))
}

/// Makes the first shop stop itself in its next section. Returns the time at which it stopped.
async fn stop_holder(stage: &Stage) -> Result<u64, ScenarioError> {
    let sold = stage.look().await?.sold;
    stage.until_sold(sold.max(1) + BEFORE).await?;
    stage.arm(0, faults::Fault::PAUSE).await?;
    match stage.fleet.stopped(0, PAUSED_WITHIN).await {
        ShopState::Stopped => Ok(stage.now_ms()),
        ShopState::Running | ShopState::Ended => Err(ScenarioError::Never("a shop to pause")),
    }
}

/// Restarts a private Redis server without its data, then disconnects the last shop from Redis.
async fn redis(site: &Site, stage: &Stage, way: Option<&TcpProxy>) -> Result<Vec<Fault>, ScenarioError> {
    let mut faults = Vec::new();
    stage.until_sold(BEFORE).await?;
    if let Some(redis) = &site.private_redis {
        let from_ms = stage.now_ms();
        redis.restart_empty().await?;
        let sold = stage.look().await?.sold;
        stage.until_sold(sold + MEANWHILE).await?;
        faults.push(Fault { from_ms, to_ms: stage.now_ms(), what: "Redis restarts without its data".into() });
    }
    if let Some(way) = way {
        let from_ms = stage.now_ms();
        block_in_place(|| way.refuse());
        sleep(CUT).await;
        block_in_place(|| way.pass());
        faults.push(Fault {
            from_ms,
            to_ms: stage.now_ms(),
            what: "shop-4 is disconnected from Redis".into(),
        });
    }
    Ok(faults)
}
