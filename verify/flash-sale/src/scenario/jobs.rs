//! S10: the shops' jobs while their leader is killed. The job [`TICK`] runs in the same scheduler as the shop's jobs and
//! records each of its starts as a row, so a run that started twice has two rows. The shop's jobs are judged by their effects.

use super::{
    run::LEASE,
    site::Site,
    stage::{HOT, Pace, ScenarioError, Stage, StagePlan, exchange, until},
};
use crate::{
    audit,
    fleet::ShopState,
    load::CUSTOMER,
    report::{Fault, Figure, ScenarioResult},
    server::{TICK, Tick, ticks},
    strategy::Strategy,
};
use distlock::clock::UtcTime;
use http::{Method, Request, header::CONTENT_TYPE};
use http_body_util::Full;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::SocketAddr,
    time::Duration,
};
use tokio::time::{Instant, sleep};

const PIECES: u32 = 50;
/// Number of reservations that expire at about the time at which the leader is killed.
const RESERVED: usize = 8;
/// Units that each run of the restocking adds, every two seconds.
const DELIVERED: i64 = 5;
/// Time limit for the first run, and for the runs after the kill.
const PATIENCE: Duration = Duration::from_secs(60);
/// Number of scheduled times after the kill for which the scenario waits.
const AFTER: usize = 8;
/// Pace of the waits.
const PACE: Pace = Pace { limit: PATIENCE, pause: Duration::from_millis(50) };

/// Kills the leader between two runs and checks every start of a run.
pub(super) async fn run(site: &Site, name: &str) -> Result<ScenarioResult, ScenarioError> {
    let begin = Instant::now();
    let plan = StagePlan {
        name: name.to_owned(),
        strategy: Strategy::Fenced,
        shops: 4,
        last_shop_by: None,
        products: vec![(HOT.to_owned(), PIECES)],
        lease: LEASE,
        wait: Duration::from_secs(5),
    };
    let stage = Stage::open(site, &plan).await?;
    until_runs(&stage, "the first run of a job", |runs| !runs.is_empty()).await?;
    let restocking = json!({ "schedule": "*/2 * * * * *", "quantity": DELIVERED });
    operate(&stage, Method::PUT, &restocking).await?;
    reserve(&stage).await?;
    let leader = leader(&stage).await?;
    let before = ticks(&stage.store).await?.len();
    until_runs(&stage, "the next run of the leader", |runs| runs.len() > before).await?;
    let last = ticks(&stage.store).await?.iter().map(|run| run.scheduled_ms).max().unwrap_or_default();
    let (killed_ms, killed_at) = (stage.now_ms(), UtcTime::now().as_millis().cast_signed());
    stage.fleet.kill(leader.0);
    until_runs(&stage, "the runs after the kill", |runs| {
        let later = runs.iter().map(|run| run.scheduled_ms).filter(|scheduled| *scheduled > last);
        later.collect::<BTreeSet<_>>().len() >= AFTER
    })
    .await?;
    // The killed shop may have claimed a run without starting it. Another one starts it when the claim has ended.
    let begin_of_end = Instant::now();
    while !gaps(&ticks(&stage.store).await?).is_empty() && begin_of_end.elapsed() < PATIENCE {
        sleep(PACE.pause).await;
    }
    let expired = until_expired(&stage).await?;
    until_delivered(&stage).await?;
    operate(&stage, Method::DELETE, &Value::Null).await?;
    let (servers, to_ms) = (stage.shares(), stage.now_ms());
    let runs = ticks(&stage.store).await?;
    let audit = stage.close(site, &[]).await?;
    let delivered = audit.rows.supplied - i64::from(PIECES);

    let mut failures = failures(&runs, &leader.1);
    failures.extend(audit.findings());
    if expired < RESERVED {
        failures.push(format!("{expired} of {RESERVED} reservations expired"));
    }
    if delivered == 0 || delivered % DELIVERED != 0 {
        failures.push(format!("{delivered} units were delivered in parts of {DELIVERED}"));
    }
    let next =
        runs.iter().filter(|run| run.started_ms >= killed_at).map(|run| run.started_ms - killed_at).min();
    let value = |ms: Option<i64>| ms.map_or("none".to_owned(), |ms| format!("{ms} ms"));
    let once = runs.iter().map(|run| run.scheduled_ms).collect::<BTreeSet<_>>().len();
    Ok(ScenarioResult {
        id: "S10".into(),
        title: "Jobs while their leader is killed".into(),
        strategy: Strategy::Fenced.name().into(),
        expected: "each run starts once".into(),
        result: format!(
            "{} starts of {once} scheduled runs, the next one {} after the kill; {expired} of {RESERVED} reservations \
             expired, {} deliveries",
            runs.len(),
            value(next),
            delivered / DELIVERED
        ),
        failures,
        initial: audit.rows.supplied,
        sold: audit.rows.sold,
        oversold: audit.rows.oversold,
        servers,
        faults: vec![Fault {
            from_ms: killed_ms,
            to_ms,
            what: format!("{} is killed while it leads", leader.1),
        }],
        figures: vec![
            Figure { name: "Starts of runs".into(), value: runs.len().to_string() },
            Figure { name: "Time from killing the leader to the next run".into(), value: value(next) },
            Figure {
                name: "Longest start delay".into(),
                value: value(runs.iter().map(|run| run.started_ms - run.scheduled_ms).max()),
            },
        ],
        seconds: begin.elapsed().as_secs_f64(),
        ..ScenarioResult::default()
    })
}

/// Checks that every scheduled time ran exactly once. Only a run whose shop was killed may have a second attempt.
fn failures(runs: &[Tick], killed: &str) -> Vec<String> {
    let mut failures = Vec::new();
    let mut instants = BTreeMap::<i64, Vec<&Tick>>::new();
    for run in runs {
        instants.entry(run.scheduled_ms).or_default().push(run);
    }
    for (instant, starts) in &instants {
        let again = starts.len() > 1 && !starts.iter().any(|start| start.shop == killed);
        let attempts: BTreeSet<_> = starts.iter().map(|start| start.attempt).collect();
        if again || attempts.len() != starts.len() {
            failures.push(format!("{TICK}: the run of {instant} started {} times", starts.len()));
        }
    }
    failures.extend(gaps(runs));
    failures
}

/// Returns the scheduled times without a run, between the first one and the last.
fn gaps(runs: &[Tick]) -> Vec<String> {
    let times: BTreeSet<_> = runs.iter().map(|run| run.scheduled_ms).collect();
    let times: Vec<_> = times.into_iter().collect();
    let gaps: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let period = gaps.iter().min().copied().unwrap_or_default();
    let is_missing = gaps.into_iter().filter(|gap| *gap != period);
    is_missing.map(|gap| format!("{TICK}: no run for {gap} ms, although it runs every {period} ms")).collect()
}

/// Returns the index and the name of the leading shop.
async fn leader(stage: &Stage) -> Result<(usize, String), ScenarioError> {
    let leading = async || {
        for (index, shop) in stage.fleet.statuses().into_iter().enumerate() {
            if stage.report(shop.address).await?.leader {
                return Ok(Some((index, shop.name)));
            }
        }
        Ok(None)
    };
    until("a shop to become the leader", PACE, leading).await
}

/// Adds or removes the restocking, at the operators' routes of a shop that lives.
async fn operate(stage: &Stage, method: Method, body: &Value) -> Result<(), ScenarioError> {
    let living = stage.fleet.statuses().into_iter().filter(|shop| shop.state == ShopState::Running);
    let operators: Option<SocketAddr> = living.filter_map(|shop| shop.operators).next();
    let request = Request::builder()
        .method(method)
        .uri(format!("/products/{HOT}/restocking"))
        .header("x-forwarded-user", "bench")
        .header(CONTENT_TYPE, "application/json")
        .body(Full::from(body.to_string()))
        .map_err(io::Error::other)?;
    let operators = operators.ok_or(ScenarioError::Never("a shop with operators' routes"))?;
    exchange(operators, "change the restocking", request).await.map(drop)
}

async fn reserve(stage: &Stage) -> Result<(), ScenarioError> {
    for number in 0..RESERVED {
        let request = Request::post(format!("/products/{HOT}/reservations"))
            .header(CONTENT_TYPE, "application/json")
            .header("x-customer", CUSTOMER)
            .header("idempotency-key", format!("held-{number}"))
            .body(Full::from(r#"{"quantity":1,"seconds":1}"#))
            .map_err(io::Error::other)?;
        exchange(stage.balancer.address(), "reserve a unit", request).await?;
    }
    Ok(())
}

/// Waits until the reservations have expired, and returns their number.
async fn until_expired(stage: &Stage) -> Result<usize, ScenarioError> {
    let begin = Instant::now();
    loop {
        let held: i64 = audit::stock_counts(&stage.store).await?.iter().map(|count| count.reserved).sum();
        let expired = RESERVED.saturating_sub(usize::try_from(held).unwrap_or(0));
        if expired == RESERVED || begin.elapsed() > PATIENCE {
            return Ok(expired);
        }
        sleep(PACE.pause).await;
    }
}

/// Waits until a job that came at run time has delivered something, but no longer than the patience.
async fn until_delivered(stage: &Stage) -> Result<(), ScenarioError> {
    let begin = Instant::now();
    let pieces = async || {
        let counts = audit::stock_counts(&stage.store).await?;
        Ok::<_, ScenarioError>(counts.iter().map(|count| count.supplied).sum::<i64>())
    };
    while pieces().await? <= i64::from(PIECES) && begin.elapsed() < PATIENCE {
        sleep(PACE.pause).await;
    }
    Ok(())
}

/// Waits until the starts of runs have this property.
async fn until_runs(
    stage: &Stage,
    what: &'static str,
    have: impl Fn(&[Tick]) -> bool,
) -> Result<(), ScenarioError> {
    until(what, PACE, async || Ok(have(&ticks(&stage.store).await?).then_some(()))).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(scheduled_ms: i64, attempt: i64, shop: &str) -> Tick {
        Tick { scheduled_ms, attempt, shop: shop.into(), started_ms: scheduled_ms }
    }

    #[test]
    fn duplicate_or_missing_run_is_a_failure() {
        let once = [run(0, 1, "shop-1"), run(5_000, 1, "shop-1"), run(10_000, 1, "shop-2")];
        assert_eq!(failures(&once, "shop-1"), [""; 0]);
        let retried = [run(0, 1, "shop-1"), run(0, 2, "shop-2"), run(5_000, 1, "shop-2")];
        assert_eq!(failures(&retried, "shop-1"), [""; 0], "the first attempt's shop was killed");
        assert_eq!(failures(&retried, "shop-3"), ["tick: the run of 0 started 2 times"]);
        let twice = [run(0, 1, "shop-1"), run(0, 1, "shop-2")];
        assert_eq!(failures(&twice, "shop-1"), ["tick: the run of 0 started 2 times"]);
        let missed = [run(0, 1, "shop-1"), run(5_000, 1, "shop-1"), run(15_000, 1, "shop-2")];
        assert_eq!(
            failures(&missed, "shop-1"),
            ["tick: no run for 10000 ms, although it runs every 5000 ms"]
        );
    }
}
