//! Elections, and a scheduler that leads by them while its ledger is elsewhere.

use super::{
    scenarios,
    support::{Keys, Tested},
};
use lock_cron::{MemoryLedger, Schedule, Scheduler};
use lock_testkit::{Direction, TcpProxy};
use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::time::sleep;

const PATIENCE: Duration = Duration::from_secs(60);

scenarios! {
    scheduler_leads_with_a_ledger_elsewhere
}

/// The starts of runs, and the node of each.
type Starts = Arc<Mutex<Vec<(String, usize)>>>;

fn node(locks: lock_core::LockFactory, ledger: MemoryLedger, number: usize, starts: &Starts) -> Scheduler {
    let builder = Scheduler::builder(locks, ledger).group("shop").node(format!("n{number}"));
    let cron =
        builder.leadership_lease(Duration::from_secs(3)).run_lease(Duration::from_secs(3)).build().unwrap();
    let starts = starts.clone();
    let job = cron.job("report", Schedule::every(Duration::from_secs(1)).unwrap(), move |run| {
        starts.lock().unwrap().push((run.id().to_string(), number));
        async { Ok(()) }
    });
    job.register().unwrap();
    cron
}

/// The leader of two nodes is cut off from the store. The other one leads once its session has ended, and no run starts twice.
async fn scheduler_leads_with_a_ledger_elsewhere<P: Tested>() {
    let (keys, ledger, starts) = (Keys::<P>::new(), MemoryLedger::new(), Starts::default());
    let mut nodes = Vec::new();
    for number in 0..2 {
        let proxy = TcpProxy::start(Keys::<P>::server());
        let cron = node(keys.through(proxy.address(), 8).await, ledger.clone(), number, &starts);
        let running = cron.clone();
        nodes.push((
            cron,
            proxy,
            tokio::spawn(async move { running.run_until(std::future::pending()).await }),
        ));
    }
    let runs_on = |number: usize| starts.lock().unwrap().iter().filter(|(_, by)| *by == number).count();
    let begun = Instant::now();
    let leader = loop {
        assert!(begun.elapsed() < PATIENCE, "nobody leads");
        match (0..2).find(|number| nodes[*number].0.is_leading() && runs_on(*number) >= 2) {
            Some(leader) => break leader,
            None => sleep(Duration::from_millis(50)).await,
        }
    };
    assert!(!nodes[1 - leader].0.is_leading(), "two leaders");
    nodes[leader].1.stall(Direction::Both);
    let (begun, before) = (Instant::now(), runs_on(1 - leader));
    while runs_on(1 - leader) < before + 2 {
        assert!(begun.elapsed() < PATIENCE, "the other node does not lead");
        assert!(!(nodes[0].0.is_leading() && nodes[1].0.is_leading()), "two leaders");
        sleep(Duration::from_millis(50)).await;
    }
    let starts = starts.lock().unwrap();
    let different: HashSet<_> = starts.iter().map(|(run, _)| run).collect();
    assert_eq!(different.len(), starts.len(), "a run started twice: {starts:?}");
    nodes.iter().for_each(|(.., running)| running.abort());
}
