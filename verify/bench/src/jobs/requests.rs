//! Sequential requests under a free in-memory lock: through `LockLayer`, through a handler that acquires and releases
//! the lock itself, and through a handler without a lock.

use super::layer_floor;
use crate::{
    Result,
    contestants::Contestant,
    measure::{nanos, now},
    order::{Answer, Order, wait_for_start},
};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use lock_core::{LockFactory, MemoryBackend};
use lock_tower::LockLayer;
use serde::{Deserialize, Serialize};
use std::{
    convert::Infallible,
    future::{Ready, ready},
    hint::black_box,
    time::Duration,
};
use tokio::runtime::Builder;
use tower::{Layer, Service, ServiceExt};

/// The entry that a router leaves in the extensions of each request, as axum's does.
#[derive(Clone)]
struct Route;

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
            let layer_floor = tower::service_fn(|request| layer_floor::serve(&lock, request, handle));
            runtime.block_on(serve(layer_floor, window))
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
    B: http_body::Body<Data = Bytes>,
{
    ask_until(&mut service, now() + nanos(window) / 4).await?;
    let began = now();
    let requests = ask_until(&mut service, began + nanos(window)).await?;
    Ok(Answered { requests, elapsed: now() - began })
}

async fn ask_until<S, B>(service: &mut S, end: u64) -> Result<u64>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>, Error = Infallible>,
    B: http_body::Body<Data = Bytes>,
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
