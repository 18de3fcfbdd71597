//! Safety when certainty fails: two leaders at once, and a server that loses everything.

use lock_core::LockFactory;
use lock_cron::{
    Overlap, RunId, Schedule, Scheduler,
    observer::{CronEvent, CronObserver},
};
use lock_fred::RedisBackend;
use lock_testkit::RedisServer;
use std::{
    collections::BTreeMap,
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::{task::JoinHandle, time::sleep};

/// The starts of each run, with their tokens.
type Starts = Arc<Mutex<BTreeMap<RunId, Vec<u64>>>>;

#[derive(Debug, Clone, Default)]
struct Leads(Arc<AtomicBool>, Arc<AtomicU32>, Arc<AtomicU32>);

impl CronObserver for Leads {
    fn on_event(&self, event: &CronEvent<'_>) {
        match event {
            CronEvent::Elected { .. } => {
                self.0.store(true, SeqCst);
                self.1.fetch_add(1, SeqCst);
            }
            CronEvent::Resigned { .. } => self.0.store(false, SeqCst),
            // Emitted after each answer to a heartbeat.
            CronEvent::ClockCompared { .. } => drop(self.2.fetch_add(1, SeqCst)),
            _ => {}
        }
    }
}

/// Creates a node with a job that is due every second. The further jobs in `own` give the node its own election.
async fn node(server: &RedisServer, own: &[&str], starts: &Starts) -> (Scheduler, Leads) {
    let leads = Leads::default();
    let backend = RedisBackend::connect(&server.url()).await.expect("running server");
    let builder = Scheduler::builder(LockFactory::new(backend.clone()), backend)
        .group("leaders")
        .observer(leads.clone());
    let cron = builder.leadership_lease(Duration::from_secs(3)).build().expect("consistent options");
    let written = starts.clone();
    let job = cron.job("shared", every_second(), move |run| {
        let mut starts = written.lock().unwrap_or_else(PoisonError::into_inner);
        starts.entry(run.id()).or_default().push(run.fencing_token().get());
        async { Ok(()) }
    });
    job.overlap(Overlap::Allow { max: 9 }).register().expect("running server");
    for name in own {
        let job = cron.job(name, every_second(), |_| async { Ok(()) });
        job.register().expect("running server");
    }
    (cron, leads)
}

fn every_second() -> Schedule {
    Schedule::cron("* * * * * *").expect("valid schedule")
}

fn run(cron: Scheduler, until: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(async move { cron.run_until(until).await.expect("clean shutdown") })
}

fn twice(starts: &Starts) -> Vec<(RunId, Vec<u64>)> {
    let starts = starts.lock().unwrap_or_else(PoisonError::into_inner);
    starts.iter().filter(|(_, tokens)| tokens.len() > 1).map(|(run, tokens)| (*run, tokens.clone())).collect()
}

fn count(starts: &Starts) -> usize {
    starts.lock().unwrap_or_else(PoisonError::into_inner).len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_leaders_at_once_start_each_instant_once() {
    let (server, starts) = (RedisServer::start(), Starts::default());
    let (old, old_leads) = node(&server, &[], &starts).await;
    let (new, new_leads) = node(&server, &["added"], &starts).await;
    let seconds = 20;
    let both = [old, new].map(|cron| run(cron, sleep(Duration::from_secs(seconds))));
    let mut at_once = 0;
    for _ in 0..seconds * 10 - 10 {
        sleep(Duration::from_millis(100)).await;
        at_once += u32::from(old_leads.0.load(SeqCst) && new_leads.0.load(SeqCst));
    }
    for one in both {
        one.await.expect("ends");
    }
    assert!(at_once > 10, "both led at {at_once} of {} looks", seconds * 10);
    assert_eq!(twice(&starts), [], "no instant starts twice");
    let begun = count(&starts);
    assert!(begun as u64 >= seconds / 2, "{begun} of {seconds} instants were started");
    eprintln!(
        "two leaders at once in {at_once} of {} looks, elected {} times: {begun} instants in {seconds} s, none twice",
        seconds * 10,
        old_leads.1.load(SeqCst) + new_leads.1.load(SeqCst)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_data_loss_starts_nothing_twice() {
    let (server, starts) = (RedisServer::start(), Starts::default());
    let (first, _) = node(&server, &[], &starts).await;
    let (second, _) = node(&server, &[], &starts).await;
    let seconds = 24;
    let both = [first, second].map(|cron| run(cron, sleep(Duration::from_secs(seconds))));
    sleep(Duration::from_secs(2)).await;
    let mut tokens = Vec::new();
    for round in 0..36 {
        // At a different fraction of the second each time, including right after an instant.
        sleep(Duration::from_millis(507)).await;
        if round % 3 != 2 {
            server.command(&["FLUSHALL"]);
        }
        tokens.push(count(&starts));
    }
    for one in both {
        one.await.expect("ends");
    }
    assert_eq!(twice(&starts), [], "no instant starts twice");
    let in_order: Vec<u64> =
        starts.lock().unwrap_or_else(PoisonError::into_inner).values().map(|tokens| tokens[0]).collect();
    assert!(in_order.is_sorted(), "tokens rise across the loss: {in_order:?}");
    assert!(count(&starts) >= 5, "the runs continue in between: {tokens:?}");
    eprintln!("24 losses of all data in {seconds} s: {} instants started, none twice", count(&starts));
}

/// Waits until each of these nodes has had this many more answers to heartbeats.
async fn heartbeats(of: &[&Leads], more: u32) {
    let counts = || of.iter().map(|leads| leads.2.load(SeqCst));
    let until: Vec<_> = counts().map(|count| count + more).collect();
    while counts().zip(&until).any(|(count, until)| count < *until) {
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pause_survives_the_loss_of_all_data() {
    let (server, starts) = (RedisServer::start(), Starts::default());
    let (first, leads) = node(&server, &[], &starts).await;
    let (second, other_leads) = node(&server, &[], &starts).await;
    let (tool, both_lead) = (first.clone(), [&leads, &other_leads]);
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let both = [first, second].map(|cron| {
        let mut stopped = stopped.clone();
        run(cron, async move { drop(stopped.wait_for(|stopped| *stopped).await) })
    });
    while count(&starts) < 2 {
        sleep(Duration::from_millis(50)).await;
    }
    tool.pause("shared").await.expect("running server");
    heartbeats(&both_lead, 3).await;
    let before = count(&starts);
    for _ in 0..3 {
        server.command(&["FLUSHALL"]);
        while !tool.list().await.expect("running server")[0].paused {
            sleep(Duration::from_millis(50)).await;
        }
        heartbeats(&both_lead, 4).await;
        assert_eq!(count(&starts), before, "a paused job has started");
    }
    tool.resume("shared").await.expect("running server");
    while count(&starts) == before {
        sleep(Duration::from_millis(50)).await;
    }
    stop.send_replace(true);
    for one in both {
        one.await.expect("ends");
    }
}
