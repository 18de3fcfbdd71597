//! The cost of the layer: `cargo bench -p lock-tower`. Prints a table, and fails if a row is above its bound.

use allocation_counter::measure;
use bytes::Bytes;
use futures_util::FutureExt;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use lock_core::{LockFactory, MemoryBackend};
use lock_fred::RedisBackend;
use lock_testkit::RedisServer;
use lock_tower::{DetachedTasks, LockLayer};
use std::{
    convert::Infallible,
    error::Error,
    future::{Ready, ready},
    hint::black_box,
    time::{Duration, Instant},
};
use tower::{Layer, Service, ServiceExt};

type Answer = Response<Full<Bytes>>;

/// A handler that is ready immediately.
fn handler(request: Request<Full<Bytes>>) -> Ready<Result<Answer, Infallible>> {
    black_box(request);
    ready(Ok(Response::new(Full::new(Bytes::from_static(b"sold")))))
}

fn request(method: Method) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::default());
    *request.method_mut() = method;
    request
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut table = Table::default();
    println!("{:<58} {:>10} {:>10} {:>12}", "per request", "median", "over bare", "allocations");

    passing(&mut table).await;
    memory(&mut table).await;
    let server = RedisServer::start();
    redis(&mut table, &server).await?;
    table.verdict()
}

async fn passing(table: &mut Table) {
    let locks = LockFactory::new(MemoryBackend::new());
    let bare = tower::service_fn(handler);
    let base = table.row("a bare handler", None, None, &mut Requests::of(bare, Method::GET)).await;
    let filtered = LockLayer::new(locks).key("k").methods([Method::POST]).layer(bare);
    let name = "passes the filter";
    let bound = Some(Duration::from_micros(1));
    table.row(name, Some(base), bound, &mut Requests::of(filtered.clone(), Method::GET)).await;
    let mut filtered = filtered;
    let count = measure(|| {
        let answer = filtered.call(request(Method::GET)).now_or_never();
        black_box(answer);
    });
    table.check("a request that passes allocates", count.count_total == 0);
}

async fn memory(table: &mut Table) {
    let bare = tower::service_fn(handler);
    let base = table.row("a bare handler", None, None, &mut Requests::of(bare, Method::POST)).await;
    let locks = LockFactory::new(MemoryBackend::new());
    let ten = Some(Duration::from_micros(10));
    table.row("in memory: acquire and release alone", Some(base), None, &mut Pairs::of(&locks)).await;
    let locked = LockLayer::new(locks.clone()).key("k").layer(bare);
    table.row("in memory: locked", Some(base), ten, &mut Requests::of(locked, Method::POST)).await;
    let tasks = DetachedTasks::new();
    let detached = LockLayer::new(locks).key("k").detach(&tasks).layer(bare);
    let name = "in memory: locked, in a detached task";
    table.row(name, Some(base), None, &mut Requests::of(detached, Method::POST)).await;
}

async fn redis(table: &mut Table, server: &RedisServer) -> Result<(), Box<dyn Error>> {
    let locks = LockFactory::new(RedisBackend::connect(&server.url()).await?);
    let pair = table.row("Redis: acquire and release alone", None, None, &mut Pairs::of(&locks)).await;
    let locked = LockLayer::new(locks).key("k").layer(tower::service_fn(handler));
    let twenty = Some(Duration::from_micros(20));
    table.row("Redis: locked", Some(pair), twenty, &mut Requests::of(locked, Method::POST)).await;
    Ok(())
}

/// A repeated operation.
trait Work {
    async fn once(&mut self);
}

/// A request, including its whole body.
struct Requests<S> {
    service: S,
    method: Method,
}

impl<S> Requests<S> {
    fn of(service: S, method: Method) -> Self {
        Self { service, method }
    }
}

impl<S, B> Work for Requests<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>, Error = Infallible>,
    B: http_body::Body<Data = Bytes>,
{
    async fn once(&mut self) {
        let Ok(service) = self.service.ready().await;
        let Ok(response) = service.call(request(self.method.clone())).await;
        assert!(response.status().is_success());
        let mut body = std::pin::pin!(response.into_body());
        while let Some(frame) = body.frame().await {
            let _ = black_box(frame);
        }
    }
}

/// The cost of lock-core alone.
struct Pairs(lock_core::Lock);

impl Pairs {
    fn of(locks: &LockFactory) -> Self {
        Self(locks.named("k").expect("valid name"))
    }
}

impl Work for Pairs {
    async fn once(&mut self) {
        let guard = self.0.acquire().await.expect("lock is free");
        guard.release().await.expect("release is confirmed");
    }
}

#[derive(Default)]
struct Table {
    broken: Vec<String>,
}

impl Table {
    /// Returns the median of several samples, each with as many runs as fit into some milliseconds.
    async fn row(
        &mut self,
        name: &str,
        base: Option<Duration>,
        bound: Option<Duration>,
        work: &mut impl Work,
    ) -> Duration {
        let runs = fill(work, Duration::from_millis(10)).await;
        let mut samples = Vec::new();
        for _ in 0..51 {
            let began = Instant::now();
            for _ in 0..runs {
                work.once().await;
            }
            samples.push(began.elapsed() / runs);
        }
        samples.sort();
        let median = samples[samples.len() / 2];
        let over = base.map(|base| median.saturating_sub(base));
        let mut allocations = String::new();
        let counted = measure(|| {
            if work.once().now_or_never().is_none() {
                allocations = "not counted".to_owned(); // it waited for the store
            }
        });
        if allocations.is_empty() {
            allocations = counted.count_total.to_string();
        }
        let text =
            |d: Option<Duration>| d.map_or(String::new(), |d| format!("{:.2} µs", d.as_secs_f64() * 1e6));
        println!("{name:<58} {:>10} {:>10} {allocations:>12}", text(Some(median)), text(over));
        if let (Some(over), Some(bound)) = (over, bound) {
            self.check(&format!("{name}: {over:?} over the bare handler exceeds {bound:?}"), over <= bound);
        }
        median
    }

    fn check(&mut self, what: &str, holds: bool) {
        if !holds {
            self.broken.push(what.to_owned());
        }
    }

    fn verdict(self) -> Result<(), Box<dyn Error>> {
        match self.broken.as_slice() {
            [] => Ok(()),
            broken => Err(broken.join("; ").into()),
        }
    }
}

/// Returns the number of runs that fit into this time.
async fn fill(work: &mut impl Work, time: Duration) -> u32 {
    let (began, mut runs) = (Instant::now(), 0);
    while began.elapsed() < time {
        work.once().await;
        runs += 1;
    }
    runs
}
