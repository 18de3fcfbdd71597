//! Faults at exact points. A shop pauses itself inside its critical section, and the following
//! steps wait for actions of other shops instead of fixed times.

use super::{
    script::Trouble,
    site::Site,
    stage::{HOT, ScenarioError, Stage},
};
use crate::{fleet::ShopState, report::Fault};
use lock_testkit::TcpProxy;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::{task::block_in_place, time::sleep};

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
const PATIENCE: Duration = Duration::from_secs(20);

/// The faults that occurred, and the time at which a holder was killed.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) faults: Vec<Fault>,
    pub(super) killed_ms: Option<u64>,
}

/// Injects the script's faults while the load runs.
pub(super) async fn trouble(
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
pub(super) async fn before_load(trouble: Trouble, stage: &Stage) -> Result<(), ScenarioError> {
    if trouble == Trouble::SlowPayments {
        for shop in 0..stage.fleet.len() {
            stage.control(shop, "/control/fault", &fault("stall", SLOW, false)).await?;
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
        stage.control(shop, "/control/fault", &fault("stall", SECTION, true)).await?;
    }
    stage.until_held(1..stage.fleet.len()).await?;
    // The next holder reads immediately, but writes only after its stall.
    sleep(SECTION / 4).await;
    stage.fleet.resume(0);
    let to_ms = stage.now_ms();
    for shop in 1..stage.fleet.len() {
        stage.control(shop, "/control/fault", &fault("stall", Duration::ZERO, true)).await?;
    }
    let what = "shop-1 is stopped in its critical section, and resumed during another shop's".into();
    Ok(Fault { from_ms, to_ms, what })
}

/// Releases the holder's lock by force during its payment, as an operator can. The holder goes on while others sell, so its
/// write comes too late, and the answer says so. After a pause, the lock of its idempotency key was lost too, and that layer
/// answers for it.
async fn release_by_force(site: &Site, stage: &Stage) -> Result<Fault, ScenarioError> {
    stage.control(0, "/control/fault", &fault("stall", SECTION, true)).await?;
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
    stage.control(0, "/control/fault", &fault("pause", Duration::ZERO, true)).await?;
    match stage.fleet.stopped(0, PATIENCE).await {
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

fn fault(kind: &str, length: Duration, once: bool) -> Value {
    json!({ "kind": kind, "millis": u64::try_from(length.as_millis()).unwrap_or(u64::MAX), "once": once })
}
