//! Payments with idempotency keys: clients that leave, repeat and share keys, and locks that are forcibly released.

use super::Failure;
use crate::line::{Order, Orders, Report};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use lock_core::{LockFactory, LockName, inspect::ForceReleaseOutcome};
use lock_testkit::{Seed, Stream};
use lock_tower::{
    DetachedTasks, LockLayer,
    idempotency::{Attempt, IdempotencyLayer, SqliteIdempotencyStore},
    service::BufferedBody,
};
use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous},
};
use std::{
    convert::Infallible,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{task::JoinSet, time};
use tower::{Layer, Service, ServiceExt, service_fn};

const CLIENTS: usize = 8;
/// Shorter than a long payment, so that retries are rejected; longer than a short one, so that some retries wait for
/// it.
const WAIT: Duration = Duration::from_millis(20);
/// A payment that outlasts the next renewal, which notices a forced release.
const LONG: Duration = Duration::from_millis(200);
const BETWEEN_FORCED_RELEASES: Duration = Duration::from_millis(3);
/// The number of recent keys whose locks may be forcibly released.
const RECENT_KEYS: u64 = 3;
const DRAIN: Duration = Duration::from_secs(60);

/// The settings of the clients.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    pub(super) database: PathBuf,
    pub(super) requests: usize,
    pub(super) keys: u64,
    pub(super) seed: Seed,
}

impl Terms {
    /// Returns the key of the request with this number, such that all processes use about the same keys at a time.
    fn key(&self, number: usize) -> u64 {
        number as u64 * self.keys / self.requests.max(1) as u64
    }
}

/// The numbers of events in this process.
#[derive(Debug, Default)]
struct Counts {
    begun: AtomicUsize,
    left: AtomicUsize,
    rejected: AtomicUsize,
    failed: AtomicUsize,
    replayed: AtomicUsize,
    forced: AtomicUsize,
}

pub(super) async fn run(locks: &LockFactory, terms: Terms, orders: &mut Orders) -> Result<(), Failure> {
    let (pool, tasks) = (open(&terms.database).await?, DetachedTasks::new());
    let counts = Arc::new(Counts::default());
    let store = SqliteIdempotencyStore::new(pool.clone());
    let lock = LockLayer::new(locks.clone()).detach(&tasks).wait(WAIT);
    let layer = IdempotencyLayer::unscoped(lock, store).recorded_by_handler();
    let service = layer.layer(service_fn(move |request| handle(pool.clone(), request)));
    Report::Ready.say();
    orders.wait_for(&Order::Go).await;
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let random = Seed::new(terms.seed.get().wrapping_add(number as u64)).stream();
        let client = Client { random, counts: counts.clone(), terms: terms.clone() };
        clients.spawn(client.work(service.clone()));
    }
    let forcing = tokio::spawn(force_releases(locks.clone(), terms.clone(), counts.clone()));
    let mut answers = Vec::new();
    while let Some(client) = clients.join_next().await {
        answers.extend(client??);
    }
    forcing.abort();
    tasks.drain(DRAIN).await?;
    for (key, body) in &answers {
        Report::Paid { key: *key, answer: body.clone() }.say();
    }
    let of = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    Report::Payments {
        left: of(&counts.left),
        rejected: of(&counts.rejected),
        failed: of(&counts.failed),
        replayed: of(&counts.replayed),
        forced: of(&counts.forced),
    }
    .say();
    Ok(())
}

/// Opens the database, which the test has created in WAL mode: processes that change the mode at the same time would find
/// it locked, whatever their `busy_timeout`.
async fn open(file: &Path) -> Result<SqlitePool, sqlx::Error> {
    let options = SqliteConnectOptions::new()
        .filename(file)
        .synchronous(SqliteSynchronous::Off)
        .busy_timeout(Duration::from_secs(60));
    SqlitePoolOptions::new().max_connections(4).connect_with(options).await
}

/// Pays, and stores the answer in the same transaction.
async fn handle(
    pool: SqlitePool,
    request: Request<BufferedBody>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(pay(pool, request).await.unwrap_or_else(|_| {
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response
    }))
}

async fn pay(pool: SqlitePool, request: Request<BufferedBody>) -> Result<Response<Full<Bytes>>, Failure> {
    let attempt = request.extensions().get::<Attempt>().cloned().ok_or("there is no attempt")?;
    let token = attempt.fencing_token();
    time::sleep(if token.get() % 16 == 0 { LONG } else { Duration::from_millis(token.get() % 8) }).await;
    let mut tx = pool.begin_with("begin immediate").await?;
    sqlx::query("insert into payments (name) values (?1)")
        .bind(attempt.name().as_str())
        .execute(&mut *tx)
        .await?;
    let receipt = Bytes::from(format!("{} under {token} by {}", attempt.name(), std::process::id()));
    let receipt = Response::builder().status(StatusCode::CREATED).body(receipt)?;
    SqliteIdempotencyStore::complete_in(&mut tx, &attempt, &receipt).await?;
    tx.commit().await?;
    Ok(receipt.map(Full::new))
}

/// Forcibly releases locks of keys that are probably in use.
async fn force_releases(locks: LockFactory, terms: Terms, counts: Arc<Counts>) -> Result<(), Failure> {
    let mut random = Seed::new(!terms.seed.get()).stream();
    loop {
        time::sleep(BETWEEN_FORCED_RELEASES).await;
        let key = terms.key(counts.begun.load(Ordering::Relaxed)).saturating_sub(random.below(RECENT_KEYS));
        let forced = locks.force_release(&LockName::of(("idempotency", key))?).await;
        if matches!(forced, Ok(ForceReleaseOutcome::Released { .. })) {
            counts.forced.fetch_add(1, Ordering::Relaxed);
        }
    }
}

struct Client {
    random: Stream,
    counts: Arc<Counts>,
    terms: Terms,
}

impl Client {
    /// Sends requests until the process has sent all of its share. Returns the key and the receipt of each.
    async fn work<S, B>(mut self, service: S) -> Result<Vec<(u64, String)>, Failure>
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>, Error = Infallible> + Clone,
        B: http_body::Body<Error = lock_tower::BoxError>,
    {
        let mut receipts = Vec::new();
        loop {
            let number = self.counts.begun.fetch_add(1, Ordering::Relaxed);
            if number >= self.terms.requests {
                return Ok(receipts);
            }
            let key = self.terms.key(number);
            let receipt = loop {
                if let Some(receipt) = self.ask(&service, key).await? {
                    break receipt;
                }
            };
            receipts.push((key, receipt));
        }
    }

    /// Sends a request, and leaves after a random time in one case of four. Returns the receipt, or `None` if the
    /// request must be repeated.
    async fn ask<S, B>(&mut self, service: &S, key: u64) -> Result<Option<String>, Failure>
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>, Error = Infallible> + Clone,
        B: http_body::Body<Error = lock_tower::BoxError>,
    {
        let request = Request::post("/payments").header("idempotency-key", key.to_string());
        let asking = service.clone().oneshot(request.body(Full::from(format!("{key} EUR")))?);
        let patience = match self.random.chance(0.25) {
            true => Duration::from_micros(self.random.below(10_000)),
            false => DRAIN,
        };
        let Ok(response) = time::timeout(patience, asking).await else {
            self.counts.left.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        };
        let (head, body) = response?.into_parts();
        match head.status {
            StatusCode::CREATED => {}
            StatusCode::CONFLICT => {
                self.counts.rejected.fetch_add(1, Ordering::Relaxed);
                return Ok(None);
            }
            // The lock was lost, or the transaction of a stale attempt was rolled back.
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::INTERNAL_SERVER_ERROR => {
                self.counts.failed.fetch_add(1, Ordering::Relaxed);
                return Ok(None);
            }
            other => return Err(format!("the answer to {key} is {other}").into()),
        }
        if head.headers.contains_key("idempotent-replayed") {
            self.counts.replayed.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Some(String::from_utf8(body.collect().await?.to_bytes().to_vec())?))
    }
}
