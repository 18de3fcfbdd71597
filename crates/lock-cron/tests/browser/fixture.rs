//! A group with a history, three live nodes and their console.

use crate::past::{
    Happened::{self, Ran, Skipped},
    Past, PastJob, TIMEOUT,
};
use axum::{http::request::Parts, response::Response};
use lock_core::{LockFactory, MemoryBackend};
use lock_cron::{Actor, Retries, RunOutcome, Schedule, Scheduler};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{net::TcpListener, task::JoinHandle};

pub(crate) const FAILING: &str = "sync-exchange-rates";
/// A job with an open run that belongs to a backfill.
pub(crate) const BACKFILLED: &str = "rebuild-search-index";
pub(crate) const ERROR: &str =
    "GET https://rates.example/v1/latest: 503 Service Unavailable: upstream connect error before headers";
const OK: Happened = Ran(&[(RunOutcome::Succeeded, "")]);
const DOWN: Happened = Ran(&[(RunOutcome::Failed, ERROR), (RunOutcome::Failed, ERROR)]);
const SLOW: Happened = Ran(&[(RunOutcome::Failed, ERROR), (RunOutcome::TimedOut, "timed out after 5m")]);
const RESET: Happened = Ran(&[(RunOutcome::Failed, "connection reset by peer"), (RunOutcome::Succeeded, "")]);
const BUSY: Happened = Skipped("other runs were open");

/// The jobs of every node.
const JOBS: [PastJob; 10] = [
    job("audit-log-rotation", "15 3 * * *", 21_400),
    job("expire-carts", "*/10 * * * *", 1_850),
    job("invoices", "CRON_TZ=Europe/Berlin 0 2 * * *", 94_000),
    job("nightly-reports", "30 1 * * MON-FRI", 163_000),
    job(BACKFILLED, "@every 5m", 150_000),
    job("refresh-recommendations", "5,35 * * * *", 38_500),
    job("restock-levels", "0 * * * *", 6_200),
    job("send-digests", "CRON_TZ=America/New_York 0 7 * * MON", 72_000),
    job(FAILING, "*/15 * * * *", 2_700),
    job("warm-cache", "0 */6 * * *", 12_300),
];

/// A job that no live node has.
const UNOWNED: PastJob = job("legacy-export", "0 4 * * SUN", 55_000);

const fn job(name: &'static str, schedule: &'static str, takes_millis: u64) -> PastJob {
    PastJob { name, schedule, takes: Duration::from_millis(takes_millis) }
}

/// A running console. Dropping it stops its nodes and closes its port.
pub(crate) struct Fixture {
    pub(crate) address: SocketAddr,
    pub(crate) cron: Scheduler,
    pub(crate) bank_is_open: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Fixture {
    /// Starts the group and its console, with actions enabled.
    pub(crate) async fn start() -> Self {
        let past = written_past().await;
        let memory = MemoryBackend::with_clock(past.clock.clone());
        let (bank_is_open, mut tasks) = (Arc::new(AtomicBool::new(false)), Vec::new());
        let mut first: Option<Scheduler> = None;
        for name in ["web-1", "web-2", "web-3"] {
            let locks = LockFactory::builder(memory.clone()).clock(past.clock.clone()).build().unwrap();
            let cron =
                Scheduler::builder(locks, past.ledger.clone()).group("billing").node(name).build().unwrap();
            for PastJob { name: job, schedule, .. } in JOBS {
                let bank = bank_is_open.clone();
                let body = move |_| {
                    let fails = job == FAILING && !bank.load(Ordering::SeqCst);
                    async move { if fails { Err(ERROR.into()) } else { Ok(()) } }
                };
                let schedule = Schedule::cron(schedule).unwrap();
                let builder = cron.job(job, schedule, body).timeout(TIMEOUT).retries(Retries::times(1));
                builder.register().unwrap();
            }
            let running = cron.clone();
            tasks.push(tokio::spawn(async move { running.run_until(std::future::pending()).await.unwrap() }));
            // The first node is the leader.
            while first.is_none() && !cron.is_leading() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            first.get_or_insert(cron);
        }
        let cron = first.unwrap();
        cron.pause_with_note("nightly-reports", note()).await.unwrap();
        while cron.list().await.unwrap().len() < JOBS.len() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let (address, serving) = serve(lock_cron::router_with_actions(cron.clone(), ann)).await;
        tasks.push(serving);
        Self { address, cron, bank_is_open, tasks }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/cron", self.address)
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn note() -> lock_cron::PauseNote {
    let text = "the data warehouse moves, back on Monday".to_owned();
    lock_cron::PauseNote { actor: "ann".to_owned(), text }
}

fn ann(_: &Parts) -> std::future::Ready<Result<Actor, Response>> {
    std::future::ready(Ok(Actor::new("ann")))
}

/// Serves a console under `/cron` on a free port.
pub(crate) async fn serve(console: axum::Router) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = axum::Router::new().nest_service("/cron", console);
    (address, tokio::spawn(async move { axum::serve(listener, app).await.unwrap() }))
}

async fn written_past() -> Past {
    let past = Past::new();
    let times = |count| std::iter::repeat_n(OK, count);
    past.job(UNOWNED, &times(9).collect::<Vec<_>>()).await;
    for job in JOBS {
        let runs: Vec<_> = match job.name {
            FAILING => times(14).chain([DOWN, DOWN, DOWN, DOWN, SLOW, DOWN]).collect(),
            "refresh-recommendations" => {
                times(6).chain([BUSY, BUSY, OK, RESET, OK, OK, BUSY]).chain(times(9)).collect()
            }
            BACKFILLED => times(24).chain([BUSY]).collect(),
            "send-digests" => times(5).collect(),
            _ => times(24).collect(),
        };
        past.job(job, &runs).await;
        if job.name == BACKFILLED {
            past.backfill(job).await;
        }
    }
    past
}
