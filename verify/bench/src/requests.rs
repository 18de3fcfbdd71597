//! Sequential requests under a free in-memory lock: through `LockLayer`, through the least that a layer does, through a handler
//! that acquires and releases the lock itself, and through a handler without a lock.

use crate::{
    Result,
    contestants::Contestant,
    machine::{nanos, now},
    order::{Answer, Order, wait_for_start},
};
use bytes::Bytes;
use futures_util::FutureExt;
use http::{Method, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use lock_core::{Hold, Lock, LockFactory, LockGuard, MemoryBackend};
use lock_tower::LockLayer;
use serde::{Deserialize, Serialize};
use std::{
    convert::Infallible,
    future::{Future, Ready, ready},
    hint::black_box,
    io,
    pin::Pin,
    sync::{Arc, Mutex, Weak},
    task::{Context, Poll},
    time::Duration,
};
use tokio::runtime::Builder;
use tower::{Layer, Service, ServiceExt};

/// The entry that a router leaves in the extensions of each request, as axum's does.
#[derive(Clone)]
struct Route;

/// The requests of one measurement.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answered {
    pub(crate) requests: u64,
    /// Time from the first to the last request, in nanoseconds.
    pub(crate) elapsed: u64,
}

pub(crate) fn run(order: &Order, window: Duration) -> Result<Answer> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let locks = LockFactory::new(MemoryBackend::new());
    let bare = tower::service_fn(handle);
    wait_for_start()?;
    let answered = match order.contestant {
        Contestant::Layer => runtime.block_on(serve(LockLayer::new(locks).key("k").layer(bare), window)),
        Contestant::Memory => {
            let lock = locks.named("k")?;
            let by_hand = tower::service_fn(|request| async {
                let guard = lock.acquire().await.expect("acquired");
                let response = handle(request).await;
                guard.release().await.expect("released");
                response
            });
            runtime.block_on(serve(by_hand, window))
        }
        Contestant::LayerFloor => {
            let lock = locks.named("k")?;
            let floor = tower::service_fn(|request| layer_floor(&lock, request, handle));
            runtime.block_on(serve(floor, window))
        }
        Contestant::Handler => runtime.block_on(serve(bare, window)),
        other => Err(format!("{} answers no requests", other.label()).into()),
    };
    Ok(serde_json::to_value(answered?)?)
}

/// Sends requests sequentially and reads the responses. Counts them for the length of the window, after a warm-up of a
/// quarter of the window.
async fn serve<S, B>(mut service: S, window: Duration) -> Result<Answered>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>, Error = Infallible>,
    B: Body<Data = Bytes>,
{
    ask_until(&mut service, now() + nanos(window) / 4).await?;
    let began = now();
    let requests = ask_until(&mut service, began + nanos(window)).await?;
    Ok(Answered { requests, elapsed: now() - began })
}

async fn ask_until<S, B>(service: &mut S, end: u64) -> Result<u64>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>, Error = Infallible>,
    B: Body<Data = Bytes>,
{
    /// Number of requests between two readings of the clock.
    const BATCH: u64 = 16;
    let mut requests = 0;
    while now() < end {
        for _ in 0..BATCH {
            let mut request = Request::new(Full::default());
            *request.method_mut() = Method::POST;
            request.extensions_mut().insert(Route);
            let response = service.ready().await?.call(request).await?;
            if !response.status().is_success() {
                return Err(format!("a request was answered by {}", response.status()).into());
            }
            let mut body = std::pin::pin!(response.into_body());
            while let Some(frame) = body.frame().await {
                black_box(frame.is_ok());
            }
        }
        requests += BATCH;
    }
    Ok(requests)
}

fn handle(request: Request<Full<Bytes>>) -> Ready<std::result::Result<Response<Full<Bytes>>, Infallible>> {
    black_box(request);
    ready(Ok(Response::new(Full::new(Bytes::from_static(b"sold")))))
}

type Shared = Mutex<Option<LockGuard>>;

/// The handler's handle. A handler would release the lock through the second field.
#[derive(Clone)]
struct Handle(#[expect(dead_code)] Hold, #[expect(dead_code)] Weak<Shared>);

/// A body that keeps the lock until its end.
struct Keeping {
    body: Full<Bytes>,
    lock: Option<(Hold, Arc<Shared>)>,
}

/// Does the least that a layer does, straight on lock-core, as the measure of `LockLayer`: it waits for the lock, gives the
/// handler a handle that can release it early, keeps it until the body ends, and checks for its loss after the head and at the
/// end. One fixed key, and no limits, policies, events, spans or detached handlers.
async fn layer_floor<H, F>(
    lock: &Lock,
    mut request: Request<Full<Bytes>>,
    handler: H,
) -> std::result::Result<Response<Keeping>, Infallible>
where
    H: FnOnce(Request<Full<Bytes>>) -> F,
    F: Future<Output = std::result::Result<Response<Full<Bytes>>, Infallible>>,
{
    let Ok(guard) = lock.acquire_timeout(Duration::from_secs(1)).await else { return Ok(unavailable()) };
    let hold = guard.hold();
    let shared = Arc::new(Mutex::new(Some(guard)));
    request.extensions_mut().insert(Handle(hold.clone(), Arc::downgrade(&shared)));
    let response = handler(request).await?;
    if !hold.is_held() {
        return Ok(unavailable());
    }
    Ok(response.map(|body| Keeping { body, lock: Some((hold, shared)) }))
}

fn unavailable() -> Response<Keeping> {
    let mut response = Response::new(Keeping { body: Full::default(), lock: None });
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response
}

impl Body for Keeping {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx).map_err(|never| match never {});
        if let (Poll::Ready(_), true) = (&frame, self.body.is_end_stream())
            && let Some((hold, shared)) = self.lock.take()
            && let Some(Some(guard)) = Arc::into_inner(shared).and_then(|shared| shared.into_inner().ok())
        {
            if !hold.is_held() {
                return Poll::Ready(Some(Err(io::Error::other("the lock was lost"))));
            }
            drop(guard.release().now_or_never());
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}
