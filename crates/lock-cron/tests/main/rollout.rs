//! A rolling deployment under load: its runs match the table of deploys in `docs/jobs.md`.

use crate::fleet::{Fleet, Running, second, secs};
use lock_cron::{RunContext, Schedule};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};
use tokio::time::sleep;

/// The number of jobs that both versions have.
const LOAD: usize = 200;

/// The seconds at which each job started, by their instants.
type Starts = Arc<Mutex<BTreeMap<String, Vec<u64>>>>;

fn old_version() -> Vec<(String, &'static str)> {
    vec![("kept".into(), "* * * * *"), ("changed".into(), "*/2 * * * *"), ("removed".into(), "* * * * *")]
}

fn new_version() -> Vec<(String, &'static str)> {
    vec![("kept".into(), "* * * * *"), ("changed".into(), "*/3 * * * *"), ("added".into(), "* * * * *")]
}

fn start(fleet: &Fleet, name: &str, mut jobs: Vec<(String, &'static str)>, starts: &Starts) -> Running {
    let node = fleet.node(name);
    jobs.extend((0..LOAD).map(|number| (format!("load-{number}"), "H/5 * * * *")));
    for (job, schedule) in jobs {
        let starts = starts.clone();
        let body = move |run: RunContext| {
            let at = run.id().scheduled().map(second).expect("no run was triggered");
            starts.lock().expect("not poisoned").entry(run.job().to_string()).or_default().push(at);
            async { Ok(()) }
        };
        node.cron
            .job(&job, Schedule::cron(schedule).expect("valid schedule"), body)
            .register()
            .expect("valid job");
    }
    node.start()
}

#[tokio::test(start_paused = true)]
async fn each_job_runs_as_in_the_table_of_deploys() {
    let (fleet, starts) = (Fleet::new(), Starts::default());
    let minutes = |from: u64, to: u64, step: usize| (from..=to).filter(move |at| at % step as u64 == 0);

    let old: Vec<_> = ["a1", "b1", "c1"].map(|name| start(&fleet, name, old_version(), &starts)).into();
    sleep(secs(10 * 60 + 30)).await;
    let mut new = Vec::new();
    for (old, name) in old.into_iter().zip(["a2", "b2", "c2"]) {
        // The second node crashes.
        if name == "b2" {
            old.kill()
        } else {
            old.stop().await
        }
        new.push(start(&fleet, name, new_version(), &starts));
        sleep(secs(5 * 60)).await;
    }
    // The last old node ended at 20:30.
    sleep(secs(5 * 60 + 45)).await;
    for node in new {
        node.stop().await;
    }

    let mut starts = std::mem::take(&mut *starts.lock().expect("not poisoned"));
    starts.values_mut().for_each(|of| of.sort_unstable());
    let of = |job: &str| starts[job].iter().map(|at| at / 60).collect::<Vec<_>>();
    assert_eq!(of("kept"), minutes(1, 31, 1).collect::<Vec<_>>());
    assert_eq!(of("added"), minutes(11, 31, 1).collect::<Vec<_>>(), "from its registration on");
    assert_eq!(of("removed"), minutes(1, 20, 1).collect::<Vec<_>>(), "until its last node ends");
    let both: BTreeSet<u64> = minutes(1, 20, 2).chain(minutes(11, 31, 3)).collect();
    assert_eq!(of("changed"), Vec::from_iter(both), "by both schedules while both versions run");
    for job in (0..LOAD).map(|number| format!("load-{number}")) {
        let (first, runs) = (starts[&job][0], starts[&job].len() as u64);
        assert_eq!(starts[&job], (0..runs).map(|run| first + run * 300).collect::<Vec<_>>(), "{job}");
        assert!(first <= 300 && first + runs * 300 > 31 * 60, "{job}: {:?}", starts[&job]);
    }
}
