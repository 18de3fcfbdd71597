//! Payloads of triggers: each run reads its own, on any node and in any attempt.

use crate::fleet::{Fleet, Node, Running, secs};
use lock_cron::{
    CronErrorKind, JobBuilder, MAX_PAYLOAD_BYTES, OnOrphan, Retries, RunContext, RunOutcome, Schedule,
};
use serde::de::DeserializeOwned;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::sleep;

/// The payloads of the bodies that started.
#[derive(Debug, Clone, Default)]
struct Read(Arc<Mutex<Vec<Option<u32>>>>);

impl Read {
    fn take(&self) -> Vec<Option<u32>> {
        std::mem::take(&mut self.0.lock().expect("not poisoned"))
    }
}

/// Returns a job whose bodies record their payload and take this time.
fn job(node: &Node, schedule: &str, read: &Read, takes: Duration) -> JobBuilder {
    let read = read.clone();
    node.cron.job("job", Schedule::cron(schedule).expect("valid schedule"), move |run| {
        let read = read.clone();
        async move {
            let payload = run.payload()?;
            read.0.lock().expect("not poisoned").push(payload);
            sleep(takes).await;
            Ok(())
        }
    })
}

async fn start(node: Node) -> Running {
    let running = node.start();
    sleep(secs(1)).await;
    running
}

#[tokio::test(start_paused = true)]
async fn triggered_run_has_the_payload_and_a_scheduled_one_has_none() {
    let (fleet, read) = (Fleet::new(), Read::default());
    let node = fleet.node("a");
    job(&node, "@yearly", &read, secs(0)).register().expect("valid job");
    let running = start(node).await;
    let other = fleet.node("b").cron;
    other.trigger_with("job", &7).await.expect("healthy store");
    sleep(secs(2)).await;
    other.trigger("job").await.expect("healthy store");
    sleep(secs(2)).await;
    assert_eq!(read.take(), [Some(7), None]);
    running.cron.replace("job", "* * * * *").await.expect("healthy store");
    sleep(secs(60)).await;
    assert_eq!(read.take(), [None]);
}

#[tokio::test(start_paused = true)]
async fn trigger_payload_replaces_the_instance_payload_once() {
    let (fleet, read) = (Fleet::new(), Read::default());
    let node = fleet.node("a");
    let body = read.clone();
    node.cron
        .kind("import", move |run| {
            let read = body.clone();
            async move {
                read.0.lock().expect("not poisoned").push(run.payload()?);
                Ok(())
            }
        })
        .register()
        .expect("valid kind");
    let running = start(node).await;
    let minutely = Schedule::cron("* * * * *").expect("valid schedule");
    running.cron.add("import", "7", minutely, &1).await.expect("healthy store");
    sleep(secs(5)).await;
    running.cron.trigger_with("import/7", &2).await.expect("healthy store");
    sleep(secs(5)).await;
    assert_eq!(read.take(), [Some(2)]);
    sleep(secs(60)).await;
    assert_eq!(read.take(), [Some(1)]);
}

#[tokio::test(start_paused = true)]
async fn payload_survives_the_death_of_the_node() {
    let (fleet, read) = (Fleet::new(), Read::default());
    let nodes = ["a", "b"].map(|name| fleet.node(name));
    for node in &nodes {
        let job = job(node, "@yearly", &read, secs(100)).on_orphan(OnOrphan::Retry { max: 1 });
        job.register().expect("valid job");
    }
    let [first, second] = nodes;
    let first = start(first).await;
    let second = start(second).await;
    second.cron.trigger_with("job", &7).await.expect("healthy store");
    sleep(secs(3)).await;
    assert_eq!(read.take(), [Some(7)]);
    first.kill();
    sleep(secs(200)).await;
    assert_eq!(read.take(), [Some(7)], "the other node runs it with the same payload");
    let outcomes: Vec<_> = second.history().await.into_iter().map(|attempt| attempt.outcome).collect();
    assert_eq!(outcomes, [RunOutcome::Abandoned, RunOutcome::Succeeded]);
}

#[tokio::test(start_paused = true)]
async fn undecodable_payload_fails_without_a_retry() {
    let (fleet, read) = (Fleet::new(), Read::default());
    let node = fleet.node("a");
    job(&node, "@yearly", &read, secs(0)).retries(Retries::times(3)).register().expect("valid job");
    let running = start(node).await;
    running.cron.trigger_with("job", &"seven").await.expect("healthy store");
    sleep(secs(60)).await;
    let history = running.history().await;
    assert_eq!(history.iter().map(|attempt| attempt.outcome).collect::<Vec<_>>(), [RunOutcome::Failed]);
    assert!(history[0].detail.contains("payload"), "{}", history[0].detail);
}

/// Starts a node whose program reads payloads of type `T`, and records the run with the name of the node.
fn version<T: DeserializeOwned>(fleet: &Fleet, name: &str, ran: &Arc<Mutex<Vec<(String, u64)>>>) -> Running {
    let node = fleet.node(name);
    for kind in ["once", "often"] {
        let (ran, name) = (ran.clone(), name.to_owned());
        let body = move |run: RunContext| {
            let read = run.payload::<T>().map(drop);
            let id = run.id().scheduled().map_or(0, |at| at.as_millis());
            let (ran, name) = (ran.clone(), name.clone());
            async move {
                read?;
                ran.lock().expect("not poisoned").push((name, id));
                Ok(())
            }
        };
        node.cron.kind(kind, body).register().expect("valid kind");
    }
    node.start()
}

#[tokio::test(start_paused = true)]
async fn rolling_deploy_runs_each_payload_on_a_version_that_reads_it() {
    let (fleet, ran) = (Fleet::new(), Arc::new(Mutex::new(Vec::new())));
    let old = ["a1", "b1"].map(|name| version::<u64>(&fleet, name, &ran));
    let every = |text| Schedule::cron(text).expect("valid schedule");
    let cron = &old[0].cron;
    cron.add("often", "old", every("*/10 * * * * *"), &7).await.expect("healthy store");
    sleep(secs(5)).await;
    let new = ["a2", "b2"].map(|name| version::<String>(&fleet, name, &ran));
    cron.add("often", "new", every("5/10 * * * * *"), &"seven").await.expect("healthy store");
    for number in 0..20 {
        let at = lock_core::clock::TestClock::WALL_AT_START + secs(30 + number);
        let id = number.to_string();
        match number % 2 {
            0 => cron.once("once", &id, at, &number).await,
            _ => cron.once("once", &id, at, &id).await,
        }
        .expect("healthy store");
    }
    sleep(secs(200)).await;
    let nodes: BTreeSet<_> = ran.lock().expect("not poisoned").iter().map(|(node, _)| node.clone()).collect();
    assert_eq!(nodes.len(), 4, "each version runs what it reads: {nodes:?}");
    for id in 0..20 {
        let history = new[0].cron.history(&format!("once/{id}"), 9).await.expect("healthy store");
        let outcomes: Vec<_> = history.iter().map(|attempt| attempt.outcome).collect();
        assert_eq!(outcomes, [RunOutcome::Succeeded], "once/{id}");
    }
    for id in ["often/old", "often/new"] {
        let history = new[0].cron.history(id, 99).await.expect("healthy store");
        assert!(history.len() >= 18, "{id}: {}", history.len());
        assert!(history.iter().all(|attempt| attempt.outcome == RunOutcome::Succeeded), "{id}: {history:?}");
    }
    // The old version is gone: what only it could read fails, and says why.
    for node in old {
        node.stop().await;
    }
    sleep(secs(60)).await;
    let last = new[0].cron.history("often/old", 1).await.expect("healthy store").remove(0);
    assert_eq!(last.outcome, RunOutcome::Failed);
    assert!(last.detail.starts_with("no node could read its payload: "), "{}", last.detail);
}

#[tokio::test(start_paused = true)]
async fn payload_that_is_too_long_is_refused() {
    let (fleet, read) = (Fleet::new(), Read::default());
    let node = fleet.node("a");
    job(&node, "@yearly", &read, secs(0)).register().expect("valid job");
    let text = |bytes: usize| "x".repeat(bytes - 2);
    node.cron.trigger_with("job", &text(MAX_PAYLOAD_BYTES)).await.expect("maximum payload");
    let error = node.cron.trigger_with("job", &text(MAX_PAYLOAD_BYTES + 1)).await.unwrap_err();
    assert_eq!(error.kind(), CronErrorKind::InvalidPayload);
    assert!(error.to_string().contains("65536"), "{error}");
}

/// The leader cannot read the payload, and the only node that can has no room for the next 2 s.
async fn declined_while_full(same_jobs: bool) {
    let (fleet, ran) = (Fleet::new(), Arc::new(Mutex::new(Vec::new())));
    let node = |name: &'static str, reads: bool, max: u32| {
        let node = fleet.node_with(name, |builder| builder.max_running(max));
        for (job, takes) in [("busy", secs(2)), ("job", secs(0))] {
            if job == "busy" && !reads && !same_jobs {
                continue;
            }
            let ran = ran.clone();
            let schedule = Schedule::cron("@yearly").expect("valid schedule");
            let body = move |run: RunContext| {
                let read =
                    if reads { run.payload::<String>().map(drop) } else { run.payload::<u64>().map(drop) };
                let ran = ran.clone();
                async move {
                    read?;
                    ran.lock().expect("not poisoned").push((name, job));
                    sleep(takes).await;
                    Ok(())
                }
            };
            node.cron.job(job, schedule, body).register().expect("valid job");
        }
        node.start()
    };
    let old = node("old", false, 8);
    sleep(secs(5)).await;
    let new = node("new", true, 1);
    sleep(secs(5)).await;
    new.cron.trigger_with("busy", &"x").await.expect("healthy store");
    while ran.lock().expect("not poisoned").is_empty() {
        sleep(Duration::from_millis(50)).await;
    }
    old.cron.trigger_with("job", &"seven").await.expect("healthy store");
    sleep(secs(60)).await;
    let history = new.cron.history("job", 9).await.expect("healthy store");
    assert_eq!(history.first().map(|attempt| attempt.outcome), Some(RunOutcome::Succeeded), "{history:?}");
}

#[tokio::test(start_paused = true)]
async fn declined_run_waits_for_a_follower_that_is_full() {
    declined_while_full(true).await;
}

#[tokio::test(start_paused = true)]
async fn declined_run_waits_for_another_leader_that_is_full() {
    declined_while_full(false).await;
}

/// The leader cannot read the payload. Another node runs it and is stopped (or dies); a third node can read it.
async fn next_attempt_of_declined(dies: bool) {
    let (fleet, ran) = (Fleet::new(), Arc::new(Mutex::new(Vec::new())));
    let node = |name: &'static str, reads: bool| {
        let (node, ran) = (fleet.node(name), ran.clone());
        node.cron
            .job("job", Schedule::cron("@yearly").expect("valid schedule"), move |run: RunContext| {
                let read =
                    if reads { run.payload::<String>().map(drop) } else { run.payload::<u64>().map(drop) };
                let ran = ran.clone();
                async move {
                    read?;
                    ran.lock().expect("not poisoned").push((name.to_owned(), u64::from(run.attempt())));
                    tokio::select! {
                        () = sleep(secs(100)) => Ok(()),
                        () = run.cancelled() => Err("cancelled".into()),
                    }
                }
            })
            .on_orphan(OnOrphan::Retry { max: 5 })
            .register()
            .expect("valid job");
        node.start()
    };
    let old = node("old", false);
    sleep(secs(5)).await;
    let mut new = vec![node("b", true), node("c", true)];
    sleep(secs(5)).await;
    old.cron.trigger_with("job", &"seven").await.expect("healthy store");
    sleep(secs(25)).await;
    let first = ran.lock().expect("not poisoned").clone();
    let which = usize::from(first[0].0 == "c");
    let runner = new.remove(which);
    if dies {
        runner.kill();
    } else {
        runner.stop().await;
    }
    sleep(secs(240)).await;
    let history = old.cron.history("job", 9).await.expect("healthy store");
    assert_eq!(history.first().map(|attempt| attempt.outcome), Some(RunOutcome::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn run_whose_reader_was_stopped_is_continued_by_another() {
    next_attempt_of_declined(false).await;
}

#[tokio::test(start_paused = true)]
async fn run_whose_reader_died_is_continued_by_another() {
    next_attempt_of_declined(true).await;
}

/// The instance is removed while its run is handed over; the reads of instances take 2 s.
#[tokio::test(start_paused = true)]
async fn run_of_a_removed_instance_does_not_start_without_payload() {
    let (fleet, ran) = (Fleet::new(), Arc::new(Mutex::new(Vec::new())));
    let node = |name: &'static str| {
        let (node, ran) = (fleet.node(name), ran.clone());
        node.cron
            .kind("import", move |run: RunContext| {
                let ran = ran.clone();
                async move {
                    let amount: Option<u32> = run.payload()?;
                    ran.lock().expect("not poisoned").push((name, run.attempt(), amount));
                    tokio::select! {
                        () = sleep(secs(100)) => Ok(()),
                        () = run.cancelled() => Err("cancelled".into()),
                    }
                }
            })
            .on_orphan(OnOrphan::Retry { max: 1 })
            .register()
            .expect("valid kind");
        node.start()
    };
    let a = node("a");
    sleep(secs(5)).await;
    let b = node("b");
    sleep(secs(5)).await;
    a.cron.add("import", "7", Schedule::cron("* * * * *").expect("valid"), &7).await.expect("healthy store");
    sleep(secs(60)).await;
    let first = ran.lock().expect("not poisoned").clone();
    let (runner, other) = if first[0].0 == "a" { (a, b) } else { (b, a) };
    // The store is slow to return the instances.
    let slow = lock_testkit::Fault::Delay(Duration::from_millis(700));
    other.faulty.always(lock_testkit::Op::Instances, slow);
    let cron = other.cron.clone();
    let stopping = tokio::spawn(async move { runner.stop().await });
    // Removed shortly before the hand-over, which follows the grace of 20 s.
    sleep(Duration::from_millis(19_900)).await;
    assert!(!stopping.is_finished());
    cron.remove("import", "7").await.expect("healthy store");
    sleep(secs(30)).await;
    let payloads: BTreeSet<_> =
        ran.lock().expect("not poisoned").iter().map(|(_, _, amount)| *amount).collect();
    assert_eq!(payloads, BTreeSet::from([Some(7)]));
}
