//! Handlers that outlive their clients, and shutdowns that wait for these handlers.

use crate::support::{Recorder, World, ask, get, millis, secs, text};
use axum::{Router, body::Body, routing::any};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use lock_core::LostReason;
use lock_testkit::Op;
use lock_tower::{DetachedTasks, DrainTimeout, KeyTemplate, LockHandle, LockLayer, LockLost, WithoutLock};
use std::{
    convert::Infallible,
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Poll, Waker},
};
use tokio::task::JoinSet;
use tracing_subscriber::layer::SubscriberExt;

fn layer(world: &World) -> LockLayer<KeyTemplate> {
    world.layer().key("one")
}

/// A handler that takes 500 ms and counts its completions.
fn slow(done: &Arc<AtomicUsize>) -> Router {
    let done = done.clone();
    let handler = async move |lock: LockHandle| {
        tokio::time::sleep(millis(500)).await;
        assert!(lock.is_held());
        done.fetch_add(1, Ordering::SeqCst);
        "done"
    };
    Router::new().route("/", any(handler))
}

async fn leaves_after_100_ms(app: &Router) {
    assert!(tokio::time::timeout(millis(100), ask(app, get("/"))).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn client_disconnect_stops_only_attached_handlers() {
    let (world, done, tasks) = (World::new(), Arc::default(), DetachedTasks::new());
    let cancelled = slow(&done).layer(layer(&world));
    leaves_after_100_ms(&cancelled).await;
    world.settle().await;
    world.assert_released(1);

    let detached = slow(&done).layer(layer(&world).detach(&tasks));
    leaves_after_100_ms(&detached).await;
    world.settle().await;
    assert!(world.is_held());
    assert_eq!(tasks.running(), 1);
    tasks.drain(secs(5)).await.unwrap();
    world.settle().await;
    assert_eq!(done.load(Ordering::SeqCst), 1);
    world.assert_released(2);
}

#[tokio::test(start_paused = true)]
async fn detaching_does_not_change_the_response() {
    let (world, done) = (World::new(), Arc::default());
    let app = slow(&done).layer(layer(&world).detach(&DetachedTasks::new()));
    let answer = ask(&app, get("/")).await;
    assert_eq!(answer.headers()["content-length"], "4");
    assert_eq!(text(answer).await, "done");
}

#[tokio::test(start_paused = true)]
async fn cancelled_waiter_leaves_nothing_behind() {
    let (world, done, tasks) = (World::new(), Arc::default(), DetachedTasks::new());
    let other = world.another_process().named("one").unwrap().acquire().await.unwrap();
    let app = slow(&done).layer(layer(&world).detach(&tasks));
    leaves_after_100_ms(&app).await;
    assert_eq!(tasks.running(), 0);
    other.release().await.unwrap();
    tokio::time::sleep(secs(10)).await;
    assert_eq!(done.load(Ordering::SeqCst), 0);
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn drain_counts_handlers_and_shutdown_stops_them() {
    let (world, tasks) = (World::new(), DetachedTasks::new());
    let app = Router::new()
        .route("/", any(async || std::future::pending::<()>().await))
        .layer(layer(&world).detach(&tasks));
    leaves_after_100_ms(&app).await;
    let left = tasks.drain(secs(5)).await.unwrap_err();
    assert_eq!(left, DrainTimeout { handlers: 1 });
    assert!(left.to_string().contains("detached handlers still running: 1"), "{left}");
    assert!(world.locks.shutdown().await.is_clean());
    tasks.drain(secs(1)).await.unwrap();
    assert!(!world.is_held());
}

#[tokio::test(start_paused = true)]
async fn max_hold_ends_a_hanging_handler() {
    let (world, tasks) = (World::new(), DetachedTasks::new());
    let app = Router::new()
        .route("/", any(async || std::future::pending::<()>().await))
        .layer(layer(&world).max_hold(secs(20)).detach(&tasks));
    leaves_after_100_ms(&app).await;
    tokio::time::sleep(secs(19)).await;
    assert_eq!((tasks.running(), world.is_held()), (1, true));
    tokio::time::sleep(secs(1)).await;
    world.settle().await;
    assert_eq!((tasks.running(), world.is_held()), (0, false));
}

#[tokio::test(start_paused = true)]
async fn slow_reader_delays_the_handler() {
    let (world, made) = (World::new(), Arc::new(AtomicUsize::new(0)));
    let counted = made.clone();
    let handler = async move || {
        let chunk = move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Ok::<_, Infallible>(Bytes::from_static(b"chunk")) }
        };
        Body::from_stream(stream::iter(0..1000).then(chunk))
    };
    let app = Router::new().route("/", any(handler)).layer(layer(&world).detach(&DetachedTasks::new()));
    let answer = ask(&app, get("/")).await;
    tokio::time::sleep(secs(2)).await;
    let ahead = made.load(Ordering::SeqCst);
    assert!(ahead <= 3, "{ahead} chunks in memory");
    assert_eq!(text(answer).await.len(), 5000);
    world.settle().await;
    assert_eq!(world.faulty.calls(Op::Release), 1);
}

#[tokio::test(start_paused = true)]
async fn unread_endless_body_yields_and_can_be_stopped() {
    let (world, tasks) = (World::new(), DetachedTasks::new());
    let endless =
        async || Body::from_stream(stream::repeat(Ok::<_, Infallible>(Bytes::from_static(b"again"))));
    let app = Router::new().route("/", any(endless)).layer(layer(&world).detach(&tasks));
    drop(ask(&app, get("/")).await);
    world.settle().await;
    assert_eq!((tasks.running(), world.is_held()), (1, true));
    assert!(world.locks.shutdown().await.is_clean());
    tasks.drain(secs(1)).await.unwrap();
    assert!(!world.is_held());
}

#[tokio::test(start_paused = true)]
async fn panic_without_a_client_releases_the_lock() {
    let (world, tasks) = (World::new(), DetachedTasks::new());
    let panics = async || -> &'static str {
        tokio::time::sleep(millis(500)).await;
        panic!("the detached handler panics")
    };
    let app = Router::new().route("/", any(panics)).layer(layer(&world).detach(&tasks));
    leaves_after_100_ms(&app).await;
    tasks.drain(secs(5)).await.unwrap();
    world.settle().await;
    world.assert_released(1);
}

/// A layer that blocks an unwinding thread at the end of its span, when the handler is dropped but
/// its task has not ended.
struct StopsUnwinding(Mutex<(mpsc::Sender<()>, mpsc::Receiver<()>)>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for StopsUnwinding {
    fn on_exit(&self, _: &tracing::span::Id, _: tracing_subscriber::layer::Context<'_, S>) {
        if std::thread::panicking() {
            let ends = self.0.lock().unwrap();
            ends.0.send(()).unwrap();
            // Blocks until the test drops the other end.
            let _ = ends.1.recv();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unwinding_panic_reaches_the_client() {
    let world = World::new();
    let panics = async || -> &'static str { panic!("the detached handler panics") };
    let app = Router::new().route("/", any(panics)).layer(layer(&world).detach(&DetachedTasks::new()));
    let (arrives, arrived) = mpsc::channel();
    let (go_on, waits) = mpsc::channel::<()>();
    let stops = StopsUnwinding(Mutex::new((arrives, waits)));
    let _subscriber = tracing::subscriber::set_default(tracing_subscriber::registry().with(stops));
    let span = tracing::info_span!("http-request");
    let mut asking = Box::pin(AssertUnwindSafe(ask(&app, get("/"))).catch_unwind());
    let mut poll = || span.in_scope(|| asking.poll_unpin(&mut Context::from_waker(Waker::noop())));
    while arrived.try_recv().is_err() {
        assert!(poll().is_pending());
        tokio::task::yield_now().await;
    }
    assert!(poll().is_pending() && poll().is_pending(), "the handler's outcome is still unknown");
    drop(go_on);
    let panic = loop {
        if let Poll::Ready(answer) = poll() {
            break answer.unwrap_err();
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(panic.downcast_ref(), Some(&"the detached handler panics"));
}

#[tokio::test(start_paused = true)]
async fn slow_reader_does_not_delay_a_loss() {
    let (world, tasks) = (World::new(), DetachedTasks::new());
    let hangs = async || {
        let chunks = stream::repeat(Ok::<_, Infallible>(Bytes::from_static(b"chunk")));
        Body::from_stream(chunks.take(2).chain(stream::pending()))
    };
    let app = Router::new().route("/", any(hangs)).layer(layer(&world).max_hold(secs(5)).detach(&tasks));
    let mut body = ask(&app, get("/")).await.into_body();
    assert!(body.frame().await.unwrap().is_ok());
    tokio::time::sleep(secs(6)).await;
    assert_eq!(tasks.running(), 0, "the unread chunk does not keep the task");
    let error = body.frame().await.unwrap().unwrap_err();
    let cause = std::error::Error::source(&error).unwrap();
    assert_eq!(cause.downcast_ref(), Some(&LockLost(LostReason::MaxHold)));
}

#[tokio::test(start_paused = true)]
async fn limit_covers_waiters_and_unlocked_handlers() {
    let (world, tasks) = (World::new(), DetachedTasks::with_limit(1));
    let others = world.another_process();
    let held = ["t:1", "t:2"].map(|name| others.named(name).unwrap().acquire());
    let held = futures_util::future::try_join_all(held).await.unwrap();
    let key = KeyTemplate::of("t").header("x-id");
    let app = Router::new()
        .route("/", any(async || std::future::pending::<()>().await))
        .layer(world.layer().key(key).wait(secs(60)).on_bad_key(WithoutLock::PassThrough).detach(&tasks));
    let mut waiting = JoinSet::new();
    for id in ["1", "2"] {
        let (app, request) = (app.clone(), Request::get("/").header("x-id", id));
        waiting.spawn(async move { ask(&app, request.body(Body::empty()).unwrap()).await.status() });
    }
    world.settle().await;
    drop(held);
    assert_eq!(waiting.join_next().await.unwrap().unwrap(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(ask(&app, get("/")).await.status(), StatusCode::SERVICE_UNAVAILABLE, "without a key");
    world.settle().await;
    assert_eq!((tasks.running(), world.store.held().len()), (1, 1), "rejected requests keep nothing");
}

#[tokio::test(start_paused = true)]
async fn orphan_ends_after_max_orphan_time() {
    let handler = async || std::future::pending::<()>().await;
    let body = async || Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
    let (world, tasks) = (World::new(), DetachedTasks::new());
    let app = Router::new().route("/", any(handler)).route("/body", any(body));
    let app = app.layer(world.layer().no_max_hold().key("one").detach(&tasks));
    for path in ["/", "/body"] {
        let client = app.clone();
        let client = tokio::spawn(async move { text(ask(&client, get(path)).await).await });
        tokio::time::sleep(secs(3600)).await;
        assert_eq!((tasks.running(), world.is_held()), (1, true), "while the client is connected");
        client.abort();
        tokio::time::sleep(secs(15 * 60 - 1)).await;
        assert_eq!((tasks.running(), world.is_held()), (1, true));
        tokio::time::sleep(secs(2)).await;
        assert_eq!((tasks.running(), world.is_held()), (0, false));
    }
}

/// Keeps the events that an observer has received by the time this is dropped.
struct UntilDropped(Recorder, Arc<Mutex<Vec<String>>>);

impl Drop for UntilDropped {
    fn drop(&mut self) {
        self.1.lock().unwrap().extend(self.0.take());
    }
}

#[tokio::test(start_paused = true)]
async fn orphan_is_dropped_before_its_lock_is_released() {
    let (world, tasks) = (World::new(), DetachedTasks::new());
    let (recorder, before) = (Recorder::default(), Arc::<Mutex<Vec<String>>>::default());
    let work = (recorder.clone(), Arc::clone(&before));
    let handler = async move || {
        let _work = UntilDropped(work.0.clone(), work.1.clone());
        std::future::pending::<()>().await;
    };
    let layer = world.layer().no_max_hold().key("one").observer(recorder.clone()).detach(&tasks);
    let app = Router::new().route("/", any(handler)).layer(layer);
    let client = tokio::spawn(async move { ask(&app, get("/")).await });
    world.settle().await;
    client.abort();
    tokio::time::sleep(secs(15 * 60 + 1)).await;
    let released = |events: &[String]| events.iter().any(|event| event.contains("ended"));
    assert!(!released(&before.lock().unwrap()), "the lock was released before the handler was dropped");
    assert!(released(&recorder.take()));
}

#[tokio::test(start_paused = true)]
async fn size_hint_counts_down() {
    let trailers = async || Some(Ok(http::HeaderMap::new()));
    let whole = move || Full::from("done").with_trailers(trailers());
    let app = Router::new().route("/", any(async move || Body::new(Box::pin(whole()))));
    let mut body =
        ask(&app.layer(layer(&World::new()).detach(&DetachedTasks::new())), get("/")).await.into_body();
    let left = |body: &Body| http_body::Body::size_hint(body).exact();
    assert_eq!(left(&body), Some(4));
    assert!(body.frame().await.unwrap().unwrap().is_data());
    assert_eq!(left(&body), Some(0));
    assert!(body.frame().await.unwrap().unwrap().is_trailers());
    assert!(body.frame().await.is_none());
}
