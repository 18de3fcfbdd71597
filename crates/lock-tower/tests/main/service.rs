//! Compliance with tower's `Service` contract: readiness, clones and bounds.

use crate::support::{Gauge, World, millis};
use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use lock_testkit::Op;
use lock_tower::{
    BufferRequestLayer, DetachedTasks, KeyTemplate, LockLayer, PermitLayer, PermitStatus,
    service::{BufferRequest, BufferedBody, LockService, LockedBody},
};
use std::{
    convert::Infallible,
    future::poll_fn,
    task::{Context, Poll},
};
use tower::{Layer, Service, ServiceExt};

/// A service that requires readiness, becomes ready after one pending poll, and counts concurrent
/// calls.
struct Strict {
    ready: Readiness,
    inside: Gauge,
}

enum Readiness {
    Not,
    Soon,
    Ready,
}

impl Strict {
    fn new(inside: &Gauge) -> Self {
        Self { ready: Readiness::Not, inside: inside.clone() }
    }
}

/// A clone is not ready.
impl Clone for Strict {
    fn clone(&self) -> Self {
        Self::new(&self.inside)
    }
}

impl Service<Request<Full<Bytes>>> for Strict {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        match self.ready {
            Readiness::Not => {
                self.ready = Readiness::Soon;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Readiness::Soon | Readiness::Ready => {
                self.ready = Readiness::Ready;
                Poll::Ready(Ok(()))
            }
        }
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        assert!(matches!(self.ready, Readiness::Ready), "called without `poll_ready`");
        self.ready = Readiness::Not;
        let locked = request.method() == Method::POST;
        let inside = locked.then(|| self.inside.enter());
        Box::pin(async move {
            tokio::task::yield_now().await;
            drop(inside);
            Ok(Response::new(Full::from("done")))
        })
    }
}

/// The strict service with a buffered body.
#[derive(Clone)]
struct Buffered(Strict);

impl Service<Request<BufferedBody>> for Buffered {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<BufferedBody>) -> Self::Future {
        self.0.call(request.map(|body| Full::new(body.into_bytes())))
    }
}

fn request(number: usize) -> Request<Full<Bytes>> {
    let method = if number.is_multiple_of(3) { Method::GET } else { Method::POST };
    let account = number % 7;
    Request::builder().method(method).uri(format!("/?account={account}")).body(Full::default()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn mixed_requests_call_only_ready_services() {
    let world = World::new();
    let inside = Gauge::default();
    let layer = world.layer().key("one").methods([Method::POST]).wait(millis(60_000));
    let cancel = layer.clone().layer(Strict::new(&inside));
    let tasks = DetachedTasks::new();
    let detach = layer.detach(&tasks).layer(Strict::new(&inside));
    let buffered = BufferRequestLayer::new().layer(Buffered(Strict::new(&inside)));

    let mut answers = Vec::new();
    for number in 0..500 {
        // On one service, like a connection, and on clones, like a router.
        let mut shared = cancel.clone();
        answers.push(tokio::spawn(async move {
            let first = shared.ready().await.unwrap().call(request(number));
            let second = shared.ready().await.unwrap().call(request(number + 1));
            join_all([first, second].map(done)).await;
        }));
        let detached = detach.clone();
        answers.push(tokio::spawn(async move {
            done(detached.oneshot(request(number))).await;
        }));
        let buffered = buffered.clone();
        answers.push(tokio::spawn(async move {
            let get = Request::new(Full::<Bytes>::default());
            done(buffered.oneshot(get)).await;
        }));
    }
    for answer in answers {
        answer.await.unwrap();
    }
    assert_eq!(inside.most(), 1, "requests of one key overlapped");
    assert!(world.faulty.calls(Op::Acquire) > 0);
    world.settle().await;
    assert!(!world.is_held());
}

/// Awaits the head and the body, which holds the lock until its end.
async fn done<B>(answer: impl Future<Output = Result<Response<B>, Infallible>>)
where
    B: http_body::Body<Data = Bytes, Error = lock_tower::BoxError>,
{
    assert_eq!(answer.await.unwrap().into_body().collect().await.unwrap().to_bytes(), "done");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_acquired_before_the_call() {
    let world = World::new();
    let mut service = world.layer().key("one").layer(Strict::new(&Gauge::default()));
    poll_fn(|cx| service.poll_ready(cx)).await.unwrap();
    poll_fn(|cx| service.poll_ready(cx)).await.unwrap();
    let future = service.call(request(1));
    world.settle().await;
    assert_eq!(world.faulty.calls(Op::Acquire), 0, "nor before the first poll");
    assert_eq!(future.await.unwrap().status(), StatusCode::OK);
    assert_eq!(world.faulty.calls(Op::Acquire), 1);
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Failed;

#[tokio::test(start_paused = true)]
async fn inner_error_is_unchanged_and_releases() {
    let world = World::new();
    let failing = tower::service_fn(|_: Request<()>| async { Err::<Response<Full<Bytes>>, _>(Failed) });
    for expected in 1..=2 {
        let answer = match expected {
            1 => world.layer().key("one").layer(failing).oneshot(Request::new(())).await.map(drop),
            _ => {
                let detached = world.layer().key("one").detach(&DetachedTasks::new()).layer(failing);
                detached.oneshot(Request::new(())).await.map(drop)
            }
        };
        assert_eq!(answer, Err(Failed));
        world.settle().await;
        world.assert_released(expected);
    }
}

#[test]
fn layers_and_services_can_be_cloned_and_shared() {
    fn bounds<T: Clone + Send + Sync + 'static>() {}
    bounds::<LockLayer>();
    bounds::<LockLayer<KeyTemplate>>();
    bounds::<PermitLayer<KeyTemplate>>();
    bounds::<PermitStatus>();
    bounds::<LockService<Strict2>>();
    bounds::<DetachedTasks>();
    bounds::<lock_tower::LockHandle>();
    bounds::<lock_tower::LockStatus>();
    bounds::<BufferRequest<Strict2>>();
    fn sends<T: Send>() {}
    type Locked = LockService<Strict>;
    type Detached = LockService<Strict, KeyTemplate, DetachedTasks>;
    sends::<<Locked as Service<Request<Full<Bytes>>>>::Future>();
    sends::<LockedBody<Full<Bytes>>>();
    sends::<<Detached as Service<Request<Full<Bytes>>>>::Future>();
    sends::<<Detached as Service<Request<Full<Bytes>>>>::Response>();
}

type Strict2 =
    tower::util::ServiceFn<fn(Request<()>) -> BoxFuture<'static, Result<Response<()>, Infallible>>>;
