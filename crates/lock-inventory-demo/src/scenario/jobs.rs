//! S10: the shops' jobs while their leader is killed. Every start of a run is recorded as a
//! database row before its work, so a run that started twice has two rows.

use super::{
    run::LEASE,
    site::Site,
    stage::{HOT, ScenarioError, Stage, StagePlan, exchange},
};
use crate::{
    report::{Fault, Figure, ScenarioResult},
    store::JobRun,
    strategy::Strategy,
};
use http::{Request, header::CONTENT_TYPE};
use http_body_util::Full;
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    time::Duration,
};
use tokio::time::{Instant, sleep};

const PIECES: u32 = 50;
/// Number of reservations that expire at about the time at which the leader is killed.
const RESERVED: i64 = 8;
/// Time limit for the first run, and for the runs after the kill.
const PATIENCE: Duration = Duration::from_secs(60);
/// The scenario waits until runs have started for more than this number of scheduled times after the kill.
const AFTER: usize = 2;
const LOOK: Duration = Duration::from_millis(50);

/// Kills the leader between two runs and checks every start of a run.
pub(super) async fn run(site: &Site, name: &str, seed: u64) -> Result<ScenarioResult, ScenarioError> {
    let begin = Instant::now();
    let plan = StagePlan {
        name: name.to_owned(),
        strategy: Strategy::Fenced,
        shops: 4,
        last_shop_by: None,
        products: vec![(HOT.to_owned(), PIECES)],
        lease: LEASE,
        wait: Duration::from_secs(5),
        seed,
    };
    let stage = Stage::open(site, &plan).await?;
    until(&stage, "the first run of a job", |runs| !runs.is_empty()).await?;
    reserve(&stage).await?;
    let leader = leader(&stage).await?;
    let before = stage.store.job_runs().await?;
    let (killed_ms, killed_at) = (stage.now_ms(), millis_now());
    stage.fleet.kill(leader.0);
    let last = before.iter().map(|run| run.scheduled_ms).max().unwrap_or_default();
    until(&stage, "the runs after the kill", |runs| {
        let later: BTreeSet<_> =
            runs.iter().filter(|run| run.scheduled_ms > last).map(|run| run.scheduled_ms).collect();
        later.len() > AFTER
    })
    .await?;
    let begin_of_end = Instant::now();
    while stage.look().await?.stock < i64::from(PIECES) && begin_of_end.elapsed() < PATIENCE {
        sleep(LOOK).await;
    }
    let (end, servers, to_ms) = (stage.look().await?, stage.shares(), stage.now_ms());
    let runs = stage.store.job_runs().await?;
    let audit = stage.close(&[]).await?;
    let mut failures = failures(&runs, &leader.1);
    failures.extend(audit.breaches.iter().map(ToString::to_string));
    if end.stock != i64::from(PIECES) {
        failures.push(format!(
            "{} of {RESERVED} expired reservations were not returned to the stock",
            i64::from(PIECES) - end.stock
        ));
    }
    let next =
        runs.iter().filter(|run| run.started_ms >= killed_at).map(|run| run.started_ms - killed_at).min();
    let value = |ms: Option<i64>| ms.map_or("none".to_owned(), |ms| format!("{ms} ms"));
    Ok(ScenarioResult {
        id: "S10".into(),
        title: "Jobs while their leader is killed".into(),
        strategy: Strategy::Fenced.name().into(),
        expected: "each run starts once".into(),
        failures,
        initial: audit.supplied,
        sold: audit.sold,
        oversold: audit.oversold,
        servers,
        faults: vec![Fault {
            from_ms: killed_ms,
            to_ms,
            what: format!("{} is killed while it leads", leader.1),
        }],
        figures: vec![
            Figure { name: "Run starts".into(), value: runs.len().to_string() },
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

/// Checks that every scheduled time of every job ran exactly once. Only a run whose shop was killed
/// may have a second attempt.
fn failures(runs: &[JobRun], killed: &str) -> Vec<String> {
    let mut failures = Vec::new();
    let mut jobs = BTreeMap::<&str, BTreeMap<i64, Vec<&JobRun>>>::new();
    for run in runs {
        jobs.entry(&run.job).or_default().entry(run.scheduled_ms).or_default().push(run);
    }
    for (job, instants) in &jobs {
        for (instant, starts) in instants {
            let again = starts.len() > 1 && !starts.iter().any(|start| start.shop.starts_with(killed));
            let attempts: BTreeSet<_> = starts.iter().map(|start| start.attempt).collect();
            if again || attempts.len() != starts.len() {
                failures.push(format!("{job}: the run of {instant} started {} times", starts.len()));
            }
        }
        let times: Vec<_> = instants.keys().collect();
        let gaps: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        if let Some(period) = gaps.iter().min() {
            failures.extend(
                gaps.iter()
                    .filter(|gap| *gap != period)
                    .map(|gap| format!("{job}: no run for {gap} ms, although it runs every {period} ms")),
            );
        }
    }
    failures
}

/// Returns the index and the name of the leading shop.
async fn leader(stage: &Stage) -> Result<(usize, String), ScenarioError> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        for (index, shop) in stage.fleet.statuses().into_iter().enumerate() {
            if stage.get(shop.address, "/state").await?["leader"] == true {
                return Ok((index, shop.name));
            }
        }
        sleep(LOOK).await;
    }
    Err(ScenarioError::Never("a shop to become the leader"))
}

async fn reserve(stage: &Stage) -> Result<(), ScenarioError> {
    for _ in 0..RESERVED {
        let request = Request::post(format!("/skus/{HOT}/reservations"))
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(r#"{"quantity":1,"seconds":1}"#))
            .map_err(io::Error::other)?;
        exchange(stage.balancer.address(), "reserve a unit", request).await?;
    }
    Ok(())
}

async fn until(
    stage: &Stage,
    what: &'static str,
    seen: impl Fn(&[JobRun]) -> bool,
) -> Result<(), ScenarioError> {
    let begin = Instant::now();
    while !seen(&stage.store.job_runs().await?) {
        if begin.elapsed() > PATIENCE {
            return Err(ScenarioError::Never(what));
        }
        sleep(LOOK).await;
    }
    Ok(())
}

fn millis_now() -> i64 {
    lock_cron::UtcTime::now().as_millis().cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(scheduled_ms: i64, attempt: i64, shop: &str) -> JobRun {
        JobRun { job: "expire".into(), scheduled_ms, attempt, shop: shop.into(), started_ms: scheduled_ms }
    }

    #[test]
    fn duplicate_or_missing_run_is_a_failure() {
        let once = [run(0, 1, "shop-1/7"), run(5_000, 1, "shop-1/7"), run(10_000, 1, "shop-2/8")];
        assert_eq!(failures(&once, "shop-1"), [""; 0]);
        let retried = [run(0, 1, "shop-1/7"), run(0, 2, "shop-2/8"), run(5_000, 1, "shop-2/8")];
        assert_eq!(failures(&retried, "shop-1"), [""; 0], "the first attempt's shop was killed");
        assert_eq!(failures(&retried, "shop-3"), ["expire: the run of 0 started 2 times"]);
        let twice = [run(0, 1, "shop-1/7"), run(0, 1, "shop-2/8")];
        assert_eq!(failures(&twice, "shop-1"), ["expire: the run of 0 started 2 times"]);
        let missed = [run(0, 1, "shop-1/7"), run(5_000, 1, "shop-1/7"), run(15_000, 1, "shop-2/8")];
        assert_eq!(
            failures(&missed, "shop-1"),
            ["expire: no run for 10000 ms, although it runs every 5000 ms"]
        );
    }
}
