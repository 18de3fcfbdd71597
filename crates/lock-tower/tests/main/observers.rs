//! Layer events, as received by observers.

use crate::support::{Recorder, World, ask, get, millis, text};
use axum::{Router, routing::any};
use lock_core::LockName;
use lock_tower::{
    KeyTemplate, LockHandle,
    observer::{LayerEvent, LayerObserver},
};
use std::sync::{Arc, Mutex};

async fn served() -> &'static str {
    "served"
}

#[tokio::test(start_paused = true)]
async fn events_contain_the_route_template() {
    let (world, recorder) = (World::new(), Recorder::default());
    let layer = || world.layer().key("k:{id}").observer(recorder.clone());
    let nested = Router::new().route("/items/{id}", any(served)).route_layer(layer());
    let app = Router::new().nest("/shops/{shop}", nested);
    assert_eq!(text(ask(&app, get("/shops/7/items/account-4711")).await).await, "served");
    let named = Router::new().route("/{id}", any(served)).route_layer(layer().route("orders"));
    assert_eq!(text(ask(&named, get("/account-4711")).await).await, "served");
    let other = world.another_process().named("k:account-4711").unwrap().acquire().await.unwrap();
    ask(&named, get("/account-4711")).await;
    other.release().await.unwrap();
    let events = recorder.take();
    let expected = [
        "/shops/{shop}/items/{id}: acquired",
        "/shops/{shop}/items/{id}: ended after 0 ms",
        "orders: acquired",
        "orders: ended after 0 ms",
        "orders: timeout after 1000 ms, Reject",
    ];
    assert_eq!(events, expected);
}

/// The handler re-enters its lock, and that guard outlives the request.
#[tokio::test(start_paused = true)]
async fn observer_does_not_change_the_response() {
    for observer in [None, Some(Recorder::default())] {
        let (world, kept) = (World::new(), Arc::new(Mutex::new(Vec::new())));
        let (keeps, locks) = (kept.clone(), world.locks.clone());
        let handler = async move |lock: LockHandle| {
            let inner = locks.named(lock.name().as_str()).unwrap().with_owner(lock.owner()).unwrap();
            let guard = inner.acquire().await.unwrap();
            keeps.lock().unwrap().push(guard);
            "served"
        };
        let layer = world.layer().key("one");
        let layer = match observer {
            Some(observer) => layer.observer(observer),
            None => layer,
        };
        let answer = ask(&Router::new().route("/", any(handler)).layer(layer), get("/")).await;
        assert!(world.store.lose(&LockName::new("one").unwrap()), "nothing has noticed it yet");
        assert_eq!(text(answer).await, "served");
    }
}

/// An observer's panic affects only that observer.
#[derive(Debug)]
struct Panics;

impl LayerObserver for Panics {
    fn on_event(&self, _: &LayerEvent<'_>) {
        panic!("the observer panics");
    }
}

#[tokio::test(start_paused = true)]
async fn observer_panic_does_not_keep_the_lock() {
    let world = World::new();
    let app = Router::new().route("/", any(served)).layer(world.layer().key("one").observer(Panics));
    assert_eq!(text(ask(&app, get("/")).await).await, "served");
    world.settle().await;
    world.assert_released(1);
}

#[tokio::test(start_paused = true)]
async fn cancelled_wait_is_reported() {
    let (world, recorder) = (World::new(), Recorder::default());
    let _other = world.another_process().named("one").unwrap().acquire().await.unwrap();
    let late = KeyTemplate::from_async_fn(|_| std::future::pending());
    for key in [KeyTemplate::try_from("one").unwrap(), late] {
        let layer = world.layer().key(key).observer(recorder.clone());
        let app = Router::new().route("/", any(served)).layer(layer);
        assert!(tokio::time::timeout(millis(100), ask(&app, get("/"))).await.is_err());
        assert_eq!(recorder.take(), ["/: cancelled after 100 ms"]);
    }
}
