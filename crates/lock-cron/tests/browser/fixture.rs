//! A group with a past, three live nodes and their console.

use crate::past::{
    Happened::{self, Ran, RanAgain, Skipped},
    NOW, Past,
};
use axum::{http::request::Parts, response::Response};
use lock_core::{LockFactory, MemoryBackend};
use lock_cron::{Actor, RunOutcome, Schedule, Scheduler};
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
pub(crate) const ERROR: &str =
    "GET https://rates.example/v1/latest: 503 Service Unavailable: upstream connect error before headers";
const OK: Happened = Ran(RunOutcome::Succeeded, "");
const BUSY: Happened = Skipped("other runs were open");

/// The jobs of every node, with their schedules.
const JOBS: [(&str, &str); 10] = [
    ("audit-log-rotation", "15 3 * * *"),
    ("expire-carts", "*/10 * * * *"),
    ("invoices", "CRON_TZ=Europe/Berlin 0 2 * * *"),
    ("nightly-reports", "30 1 * * MON-FRI"),
    ("rebuild-search-index", "@every 30m"),
    ("refresh-recommendations", "5,35 * * * *"),
    ("restock-levels", "0 * * * *"),
    ("send-digests", "CRON_TZ=America/New_York 0 7 * * MON"),
    (FAILING, "*/15 * * * *"),
    ("warm-cache", "0 */6 * * *"),
];

/// A running console. Dropping it stops its nodes and closes its port.
pub(crate) struct Fixture {
    pub(crate) address: SocketAddr,
    pub(crate) cron: Scheduler,
    pub(crate) bank_is_open: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Fixture {
    /// Starts the group and its console, with actions.
    pub(crate) async fn start() -> Self {
        let past = written_past().await;
        let memory = MemoryBackend::with_clock(past.clock.clone());
        let (bank_is_open, mut tasks) = (Arc::new(AtomicBool::new(false)), Vec::new());
        let mut first: Option<Scheduler> = None;
        for name in ["web-1", "web-2", "web-3"] {
            let locks = LockFactory::builder(memory.clone()).clock(past.clock.clone()).build().unwrap();
            let cron =
                Scheduler::builder(locks, past.ledger.clone()).group("billing").node(name).build().unwrap();
            for (job, schedule) in JOBS {
                let bank = bank_is_open.clone();
                let body = move |_| {
                    let fails = job == FAILING && !bank.load(Ordering::SeqCst);
                    async move { if fails { Err(ERROR.into()) } else { Ok(()) } }
                };
                let timeout = Duration::from_secs(300);
                let schedule = Schedule::cron(schedule).unwrap();
                cron.job(job, schedule, body).timeout(timeout).register().unwrap();
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
    past.job("legacy-export", "0 4 * * SUN", &times(9).collect::<Vec<_>>()).await;
    for (name, schedule) in JOBS {
        let runs: Vec<_> = match name {
            FAILING => times(14)
                .chain((0..4).map(|_| RanAgain(RunOutcome::Failed, ERROR)))
                .chain([Ran(RunOutcome::TimedOut, "the timeout of 5m is over")])
                .chain([RanAgain(RunOutcome::Failed, ERROR)])
                .collect(),
            "refresh-recommendations" => times(6)
                .chain([BUSY, BUSY, OK, Ran(RunOutcome::Failed, "connection reset by peer"), OK, OK, BUSY])
                .chain(times(9))
                .collect(),
            "send-digests" => times(5).collect(),
            _ => times(24).collect(),
        };
        past.job(name, schedule, &runs).await;
    }
    past.open("rebuild-search-index", 214).await;
    past.at(NOW);
    past
}
