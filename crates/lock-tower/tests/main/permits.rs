//! At most a number of requests per key at a time, around handlers and around clients.

use crate::support::{Gauge, Recorder, World, ask, get, millis, post, problem, secs, text};
use async_trait::async_trait;
use axum::{
    Router,
    body::Body,
    routing::{any, post as posts},
};
use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use lock_core::{
    LockErrorKind, LockFactory, LockName, LostReason, MemoryBackend, Store,
    backend::{
        Backend, BackendError, BackendErrorKind, Capabilities, ForceReleaseRequest, ForceReleased, Inspected,
        Reply, Submission,
    },
    clock::UtcTime,
    permit::Semaphore,
};
use lock_testkit::{Fault, Op};
use lock_tower::{
    BoxError, BufferRequestLayer, DetachedTasks, InvalidKey, KeyTemplate, LockHandle, LockLayer, LockLost,
    OnLost, PermitHandle, PermitLayer, PermitStatus, RejectReason, Rejection, ReleaseOn, WithoutLock,
};
use std::{
    convert::Infallible,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};
use tokio::{sync::mpsc, task::JoinSet};
use tower::{Layer, Service, ServiceExt, service_fn};

fn layer(world: &World, limit: u32) -> PermitLayer {
    PermitLayer::new(world.locks.clone(), limit)
}

fn semaphore(locks: &LockFactory, name: &str, limit: u32) -> Semaphore {
    locks.semaphore(name, limit).unwrap()
}

/// Returns the number of permits that are held.
async fn used(world: &World, name: &str) -> u64 {
    semaphore(&world.locks, name, 1).inspect().await.unwrap().used
}

/// A body with two chunks, of which the second never arrives.
fn hanging_body() -> Body {
    let first = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"first"))]);
    Body::from_stream(futures_util::StreamExt::chain(first, stream::pending()))
}

#[tokio::test(start_paused = true)]
async fn limit_holds_across_processes() {
    let (world, inside) = (World::new(), Gauge::default());
    let app = |locks: LockFactory| {
        let gauge = inside.clone();
        let handler = async move || {
            let _inside = gauge.enter();
            tokio::time::sleep(millis(50)).await;
            "served"
        };
        let layer = PermitLayer::new(locks, 3).key("one").wait(secs(60));
        Router::new().route("/", any(handler)).route_layer(layer)
    };
    let apps = [app(world.locks.clone()), app(world.another_process())];
    let mut requests = JoinSet::new();
    for number in 0..30 {
        let app = apps[number % 2].clone();
        requests.spawn(async move { text(ask(&app, get("/")).await).await });
    }
    assert!(requests.join_all().await.iter().all(|text| text == "served"));
    assert_eq!((inside.most(), inside.inside()), (3, 0));
    world.settle().await;
    assert_eq!(used(&world, "one").await, 0);
}

/// The rejections for a key that is fully in use, in each of the ways, without the random delay of the retry.
async fn rejections(layers: [Router; 4]) -> Vec<serde_json::Value> {
    let mut found = Vec::new();
    let statuses = [409, 503, 409, 503];
    for (app, status) in layers.into_iter().zip(statuses) {
        let began = tokio::time::Instant::now();
        let mut json = problem(ask(&app, get("/7")).await, StatusCode::from_u16(status).unwrap()).await;
        json["waited"] = u64::try_from(began.elapsed().as_millis() / 10).unwrap().into();
        assert!(json["retry_after_ms"].take().is_u64(), "{json}");
        found.push(json);
    }
    found
}

#[tokio::test(start_paused = true)]
async fn rejections_are_those_of_locks() {
    let world = World::new();
    let other = world.another_process();
    let _lock = other.named("k:7").unwrap().acquire().await.unwrap();
    let _permits = semaphore(&other, "k:7", 2).acquire_many(2).await.unwrap();
    let route = || Router::new().route("/{id}", any(async || "never"));
    let locked = || world.layer().key("k:{id}");
    let limited = || layer(&world, 2).key("k:{id}");
    let conflict = StatusCode::CONFLICT;
    let of_locks = rejections([
        route().route_layer(locked().fail_fast()),
        route().route_layer(locked()),
        route().route_layer(locked().wait(millis(200)).timeout_status(conflict)),
        route().route_layer(locked().max_waiters(0)),
    ]);
    let of_locks = of_locks.await;
    let of_permits = rejections([
        route().route_layer(limited().fail_fast()),
        route().route_layer(limited()),
        route().route_layer(limited().wait(millis(200)).timeout_status(conflict)),
        route().route_layer(limited().max_waiters(0)),
    ]);
    assert_eq!(of_permits.await, of_locks);
    let reasons = of_locks.iter().map(|json| json["reason"].as_str().unwrap());
    assert_eq!(reasons.collect::<Vec<_>>(), ["contended", "timeout", "timeout", "overloaded"]);

    let grpc = ask(&route().route_layer(limited().fail_fast().grpc()), get("/7")).await;
    assert_eq!(grpc.headers()["grpc-status"], "10");
    let teapot = |_: Rejection| Response::builder().status(418).body(Full::<Bytes>::default()).unwrap();
    let custom = ask(&route().route_layer(limited().fail_fast().on_reject(teapot)), get("/7")).await;
    assert_eq!(custom.status(), 418);
}

#[tokio::test(start_paused = true)]
async fn waiting_request_is_served_after_a_release() {
    let world = World::new();
    let permits = semaphore(&world.another_process(), "one", 2).acquire_many(2).await.unwrap();
    let app = Router::new().route("/", any(async || "served")).route_layer(layer(&world, 2).key("one"));
    let answer = tokio::spawn(async move { text(ask(&app, get("/")).await).await });
    tokio::time::sleep(millis(300)).await;
    assert!(!answer.is_finished());
    permits.release().await.unwrap();
    assert_eq!(answer.await.unwrap(), "served");
}

#[tokio::test(start_paused = true)]
async fn permit_is_held_until_the_body_ends() {
    let world = World::new();
    let tasks = DetachedTasks::new();
    let chunks = async || Body::from_stream(stream::iter([Ok::<_, Infallible>("a"), Ok("b")]));
    let route = || Router::new().route("/", any(chunks));
    let limited = || layer(&world, 1).key("one");
    for app in [route().route_layer(limited()), route().route_layer(limited().detach(&tasks))] {
        let mut body = ask(&app, get("/")).await.into_body();
        for _ in 0..2 {
            world.settle().await;
            assert_eq!(used(&world, "one").await, 1, "the body has not ended");
            assert!(body.frame().await.unwrap().is_ok());
        }
        assert!(body.frame().await.is_none());
        world.settle().await;
        assert_eq!(used(&world, "one").await, 0, "released before the body is dropped");
    }
    let app = route().route_layer(limited().release_on(ReleaseOn::Head));
    let _answer = ask(&app, get("/")).await;
    world.settle().await;
    assert_eq!(used(&world, "one").await, 0);
    assert_eq!(world.faulty.calls(Op::Release), 3, "each was released once");
}

#[tokio::test(start_paused = true)]
async fn disconnected_client_frees_its_permit() {
    let (world, inside) = (World::new(), Gauge::default());
    let gauge = inside.clone();
    let hangs = async move || {
        let _inside = gauge.enter();
        std::future::pending::<()>().await;
    };
    let route = Router::new().route("/head", any(hangs)).route("/body", any(async || hanging_body()));
    let app = route.route_layer(layer(&world, 1).key("one"));
    assert!(tokio::time::timeout(millis(100), ask(&app, get("/head"))).await.is_err());
    assert_eq!(inside.inside(), 0, "the handler was dropped");
    world.settle().await;
    assert_eq!(used(&world, "one").await, 0);
    drop(ask(&app, get("/body")).await);
    world.settle().await;
    assert_eq!(used(&world, "one").await, 0);

    // A request that waits leaves its place in the queue.
    let other = semaphore(&world.another_process(), "one", 1);
    let permit = other.acquire().await.unwrap();
    assert!(tokio::time::timeout(millis(100), ask(&app, get("/head"))).await.is_err());
    world.settle().await;
    assert_eq!(other.inspect().await.unwrap().waiters.len(), 0);
    permit.release().await.unwrap();
    tokio::time::sleep(secs(10)).await;
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn lost_permit_drops_the_handler_or_cuts_the_body() {
    let (world, inside) = (World::new(), Gauge::default());
    let gauge = inside.clone();
    let hangs = async move || {
        let _inside = gauge.enter();
        std::future::pending::<()>().await;
    };
    let route = Router::new().route("/head", any(hangs)).route("/body", any(async || hanging_body()));
    let app = route.route_layer(layer(&world, 2).key("one"));
    world.faulty.always(Op::Renew, Fault::FailBefore(BackendErrorKind::Unavailable));
    let mut body = ask(&app, get("/body")).await.into_body();
    assert!(body.frame().await.unwrap().is_ok());
    let json = problem(ask(&app, get("/head")).await, StatusCode::SERVICE_UNAVAILABLE).await;
    assert_eq!((json["reason"].as_str(), json.get("retry_after_ms")), (Some("lost"), None));
    assert_eq!(inside.inside(), 0);
    let error = body.frame().await.unwrap().unwrap_err();
    let error = std::error::Error::source(&error).unwrap();
    assert_eq!(error.downcast_ref(), Some(&LockLost(LostReason::Expired)));
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn signalled_handler_sees_the_loss() {
    let (world, recorder) = (World::new(), Recorder::default());
    let watches = async |permit: PermitHandle| {
        assert!(permit.is_held() && !permit.remaining().is_zero());
        let lost = permit.lost().await;
        assert!(!permit.is_held() && permit.hold().remaining().is_zero());
        format!("{lost:?}")
    };
    let signals = layer(&world, 2).key("one").on_lost(OnLost::Signal).max_hold(secs(5));
    let app = Router::new().route("/", any(watches)).route_layer(signals.observer(recorder.clone()));
    assert_eq!(text(ask(&app, get("/")).await).await, "MaxHold");
    assert_eq!(recorder.take(), ["/: acquired", "/: lost: MaxHold", "/: ended after 5000 ms"]);
}

#[tokio::test(start_paused = true)]
async fn handler_releases_its_permit_early() {
    let world = World::new();
    let early = async |permit: PermitHandle| {
        assert!(permit.release().await.unwrap().was_held());
        assert!(!permit.release().await.unwrap().was_held());
        hanging_body()
    };
    let app = Router::new().route("/", any(early)).route_layer(layer(&world, 1).key("one"));
    let _body = ask(&app, get("/")).await.into_body();
    assert_eq!(used(&world, "one").await, 0);
    assert_eq!(world.faulty.calls(Op::Release), 1);
}

#[tokio::test(start_paused = true)]
async fn keys_separate_pools() {
    let (world, tasks) = (World::new(), DetachedTasks::new());
    let inside = Gauge::default();
    let gauge = inside.clone();
    let hangs = async move || {
        let _inside = gauge.enter();
        tokio::time::sleep(secs(10)).await;
    };
    // An account has one request at a time, and a lock of the same name.
    let _lock = world.another_process().named("k:1").unwrap().acquire().await.unwrap();
    let app = Router::new().route("/{id}", any(hangs));
    let app = app.route_layer(layer(&world, 1).key("k:{id}").fail_fast().detach(&tasks));
    let served = [1, 2, 3].map(|id| {
        let app = app.clone();
        tokio::spawn(async move { ask(&app, get(&format!("/{id}"))).await.status() })
    });
    world.settle().await;
    assert_eq!(inside.inside(), 3);
    problem(ask(&app, get("/2")).await, StatusCode::CONFLICT).await;
    assert!(semaphore(&world.another_process(), "k:3", 1).try_acquire().await.unwrap().is_none());
    for answer in served {
        assert_eq!(answer.await.unwrap(), StatusCode::OK);
    }
}

#[tokio::test(start_paused = true)]
async fn body_key_has_a_pool_of_its_own() {
    let world = World::new();
    let limited = layer(&world, 1).body_key(BufferRequestLayer::new(), |_, body| {
        Ok(lock_core::LockName::of(("k", String::from_utf8_lossy(body)))?)
    });
    let app = limited.fail_fast().layer(service_fn(async |_| {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"served"))))
    }));
    let send = |body: &'static str| {
        let request = Request::post("/").body(Full::new(Bytes::from_static(body.as_bytes()))).unwrap();
        app.clone().oneshot(request)
    };
    let _permit = semaphore(&world.another_process(), "k:7", 1).acquire().await.unwrap();
    assert_eq!(send("7").await.unwrap().status(), StatusCode::CONFLICT);
    assert_eq!(send("8").await.unwrap().status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn lock_and_permit_of_one_handler_are_apart() {
    let world = World::new();
    let both = async |lock: LockHandle, permit: PermitHandle| {
        assert!(lock.is_held() && permit.is_held());
        lock.name().to_string()
    };
    let (locked, limited) = (|| world.layer().key("account"), || layer(&world, 5).key("all"));
    let route = || Router::new().route("/", any(both));
    for app in [route().layer(locked()).layer(limited()), route().layer(limited()).layer(locked())] {
        assert_eq!(text(ask(&app, get("/")).await).await, "account");
    }
}

#[tokio::test(start_paused = true)]
async fn handlers_without_a_permit_are_told_so() {
    let world = World::new();
    let optional = async |permit: Option<PermitHandle>| permit.is_some().to_string();
    let status = async |status: PermitStatus| match status {
        PermitStatus::Held(_) => "held".to_owned(),
        PermitStatus::PassedThrough(reason) => reason.as_str().to_owned(),
    };
    let route = Router::new()
        .route("/needs", posts(async |_: PermitHandle| "served"))
        .route("/optional", posts(optional))
        .route("/status", posts(status));
    let missing = StatusCode::INTERNAL_SERVER_ERROR;
    assert_eq!(problem(ask(&route, post("/needs")).await, missing).await["reason"], "misconfigured");
    assert_eq!(ask(&route, post("/status")).await.status(), missing);
    assert_eq!(text(ask(&route, post("/optional")).await).await, "false");

    let passes = layer(&world, 2).key("one").on_unavailable(WithoutLock::PassThrough);
    let shadow = layer(&world, 2).key("one").shadow();
    for app in [route.clone().route_layer(passes), route.clone().route_layer(shadow)] {
        assert_eq!(text(ask(&app, post("/needs")).await).await, "served");
        assert_eq!(text(ask(&app, post("/optional")).await).await, "true");
        world.faulty.always(Op::Acquire, Fault::Hang);
        problem(ask(&app, post("/needs")).await, StatusCode::SERVICE_UNAVAILABLE).await;
        assert_eq!(text(ask(&app, post("/optional")).await).await, "false");
        assert_eq!(text(ask(&app, post("/status")).await).await, "backend_error");
        world.faulty.heal();
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_limits_and_keys_are_errors_of_the_builder() {
    let world = World::new();
    for limit in [0, (1 << 30) + 1] {
        let error = PermitLayer::try_new(world.locks.clone(), limit).unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::InvalidOptions);
        assert!(format!("{error:#}").contains(&format!("a limit of {limit} is not valid")), "{error:#}");
    }
    let panic = catch_unwind(AssertUnwindSafe(|| drop(layer(&world, 0)))).unwrap_err();
    assert!(panic.downcast_ref::<String>().unwrap().contains("use 1 to 1073741824"), "{panic:?}");

    let several = KeyTemplate::all(["a", "b"]).unwrap();
    let error = layer(&world, 1).try_key(several).unwrap_err();
    assert_eq!(error, InvalidKey::TooManyKeys { keys: 2, most: 1 });
    assert!(layer(&world, 1).try_key(KeyTemplate::all(["a"]).unwrap()).is_ok());
    assert!(layer(&world, 1).try_key("a:{").is_err());
    assert!(layer(&world, 1).key("a").try_wait(secs(1_000_000)).is_err());
}

/// A store that has locks only.
#[derive(Debug)]
struct LocksOnly(MemoryBackend);

#[async_trait]
impl Backend for LocksOnly {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new("a store of locks")
    }

    fn server_now(&self, name: &LockName) -> Option<UtcTime> {
        self.0.server_now(name)
    }

    fn submit(&self, submission: Submission) {
        self.0.submit(submission);
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        self.0.inspect(name).await
    }

    async fn force_release(
        &self,
        request: ForceReleaseRequest,
    ) -> Result<Reply<ForceReleased>, BackendError> {
        self.0.force_release(request).await
    }
}

#[tokio::test(start_paused = true)]
async fn store_without_permits_is_an_error_of_the_builder() {
    let locks = LockFactory::new(Store::new(Arc::new(LocksOnly(MemoryBackend::new()))));
    let error = PermitLayer::try_new(locks.clone(), 2).unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Backend);
    assert_eq!(error.backend_error().unwrap().kind(), BackendErrorKind::Unsupported);
    let panic = catch_unwind(AssertUnwindSafe(|| drop(PermitLayer::new(locks.clone(), 2)))).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("a store of locks has no semaphores"), "{message}");
    let app = Router::new().route("/", any(async || "served")).route_layer(LockLayer::new(locks).key("one"));
    assert_eq!(text(ask(&app, get("/")).await).await, "served", "it has locks");
}

#[tokio::test(start_paused = true)]
async fn key_that_is_too_long_is_400() {
    let world = World::new();
    let app = Router::new().route("/{id}", any(async || "served")).route_layer(layer(&world, 1).key("{id}"));
    // A lock may have a name of this length; the name of a semaphore is a little shorter.
    let longest = "x".repeat(lock_core::LockName::MAX_BYTES);
    for _ in 0..2 {
        let json = problem(ask(&app, get(&format!("/{longest}"))).await, StatusCode::BAD_REQUEST).await;
        assert_eq!(json["reason"], "bad_key");
        assert_eq!(text(ask(&app, get("/short")).await).await, "served");
    }
}

/// A client that counts its concurrent calls. A call ends with its body.
fn partner(
    inside: &Gauge,
) -> impl Service<Request<()>, Response = Response<Body>, Error = BoxError, Future: Send> + Clone + use<> {
    let gauge = inside.clone();
    service_fn(move |_: Request<()>| {
        let inside = gauge.enter();
        async move {
            tokio::time::sleep(millis(20)).await;
            let chunk = async move {
                tokio::time::sleep(millis(20)).await;
                drop(inside);
                Ok::<_, Infallible>(Bytes::from_static(b"stock"))
            };
            Ok(Response::new(Body::from_stream(stream::once(chunk))))
        }
    })
}

#[tokio::test(start_paused = true)]
async fn outgoing_calls_are_limited_across_processes() {
    let (world, inside) = (World::new(), Gauge::default());
    let client = |locks: LockFactory| {
        PermitLayer::new(locks, 4).key("partner-api").wait(secs(60)).layer(partner(&inside))
    };
    let clients = [client(world.locks.clone()), client(world.another_process())];
    let mut calls = JoinSet::new();
    for number in 0..40 {
        let client = clients[number % 2].clone();
        calls.spawn(async move {
            let response = client.oneshot(Request::new(())).await.unwrap();
            assert!(response.extensions().get::<Rejection>().is_none());
            response.into_body().collect().await.unwrap().to_bytes()
        });
    }
    assert!(calls.join_all().await.iter().all(|body| body == "stock"));
    assert_eq!((inside.most(), inside.inside()), (4, 0));
    world.settle().await;
    assert_eq!(used(&world, "partner-api").await, 0);
}

#[tokio::test(start_paused = true)]
async fn call_that_is_not_made_has_a_rejection() {
    let (world, inside) = (World::new(), Gauge::default());
    let other = semaphore(&world.another_process(), "api:a", 1).acquire().await.unwrap();
    let key = KeyTemplate::from_fn(|call| Ok(format!("api:{}", call.uri.host().unwrap_or_default())));
    let client = layer(&world, 1).key(key).fail_fast().layer(partner(&inside));
    let call = |host: &str| Request::get(format!("https://{host}/")).body(()).unwrap();
    let response = client.clone().oneshot(call("a")).await.unwrap();
    let rejection = response.extensions().get::<Rejection>().expect("it was not called");
    assert!(matches!(rejection.reason(), RejectReason::Contended));
    assert_eq!((response.status(), inside.most()), (StatusCode::CONFLICT, 0));
    drop(other);
    world.settle().await;
    assert_eq!(client.clone().oneshot(call("a")).await.unwrap().status(), StatusCode::OK);
    assert_eq!(client.oneshot(call("b")).await.unwrap().status(), StatusCode::OK, "another host");
    assert_eq!(inside.most(), 1);
}

#[tokio::test(start_paused = true)]
async fn failing_and_dropped_calls_free_their_permits() {
    let (world, (entered, mut calls)) = (World::new(), mpsc::unbounded_channel());
    let service = service_fn(move |call: Request<bool>| {
        entered.send(()).unwrap();
        async move {
            match call.into_body() {
                true => Err::<Response<Full<Bytes>>, _>("refused"),
                false => std::future::pending().await,
            }
        }
    });
    let client = layer(&world, 1).key("api").layer(service);
    assert_eq!(client.clone().oneshot(Request::new(true)).await.unwrap_err(), "refused");
    let hanging = tokio::spawn(client.clone().oneshot(Request::new(false)));
    for _ in 0..2 {
        calls.recv().await.unwrap();
    }
    assert_eq!(used(&world, "api").await, 1);
    hanging.abort();
    assert!(hanging.await.unwrap_err().is_cancelled());
    assert_eq!(client.oneshot(Request::new(true)).await.unwrap_err(), "refused");
    world.settle().await;
    assert_eq!(used(&world, "api").await, 0);
}
