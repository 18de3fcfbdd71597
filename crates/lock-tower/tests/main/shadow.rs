//! Shadow mode: measures what it would do, and does nothing to anybody.

use crate::support::{World, ask, get, millis, secs, text};
use axum::{Router, routing::any};
use lock_testkit::{Fault, Op};
use lock_tower::{
    DetachedTasks, KeyTemplate, LockStatus, RejectReason, Unlocked,
    observer::{LayerEvent, LayerObserver},
};
use std::sync::{Arc, Mutex};

/// Writes down what it hears.
#[derive(Debug, Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl LayerObserver for Heard {
    fn on_event(&self, event: &LayerEvent<'_>) {
        let said = match event {
            LayerEvent::Acquired { .. } => "acquired".to_owned(),
            LayerEvent::NotAcquired { reason, waited, disposition, .. } => {
                format!("{} after {} ms, {disposition:?}", reason.as_str(), waited.as_millis())
            }
            LayerEvent::Cancelled { waited, .. } => format!("cancelled after {} ms", waited.as_millis()),
            LayerEvent::Lost { reason, .. } => format!("lost: {reason:?}"),
            LayerEvent::Ended { held, .. } => format!("ended after {} ms", held.as_millis()),
            other => panic!("{other:?}"),
        };
        let route = event.route().map_or("no route", |route| route);
        self.0.lock().unwrap().push(format!("{route}: {said}"));
    }
}

async fn status(status: LockStatus) -> String {
    match status {
        LockStatus::Held(_) => "held".to_owned(),
        LockStatus::Unlocked(Unlocked::Shadow(reason)) => format!("without: {}", reason.as_str()),
        LockStatus::Unlocked(other) => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_shadow_never_refuses_and_says_what_it_would_have_done() {
    let (world, heard) = (World::new(), Heard::default());
    let app = |key: KeyTemplate| {
        let layer = world.layer().key(key).shadow().wait(millis(200)).observer(heard.clone());
        Router::new().route("/{id}", any(status)).route_layer(layer)
    };
    let by_path = app("k:{id}".try_into().unwrap());
    assert_eq!(text(ask(&by_path, get("/1")).await).await, "held");
    world.settle().await;
    assert_eq!(heard.take(), ["/{id}: acquired", "/{id}: ended after 0 ms"]);

    let other = world.another_process().named("k:1").unwrap().acquire().await.unwrap();
    assert_eq!(text(ask(&by_path, get("/1")).await).await, "without: timeout");
    assert_eq!(heard.take(), ["/{id}: timeout after 200 ms, PassedThrough"]);
    other.release().await.unwrap();

    let wired_wrongly = app("k:{sku}".try_into().unwrap());
    assert_eq!(text(ask(&wired_wrongly, get("/1")).await).await, "without: misconfigured");
    world.faulty.always(Op::Acquire, Fault::Hang);
    assert_eq!(text(ask(&by_path, get("/1")).await).await, "without: backend_error");
    let heard = heard.take();
    assert!(heard.iter().all(|said| said.ends_with("PassedThrough")), "{heard:?}");
}

#[tokio::test(start_paused = true)]
async fn a_shadow_does_not_stop_a_handler_whose_lock_is_lost() {
    let (world, heard) = (World::new(), Heard::default());
    let slow = async || {
        tokio::time::sleep(secs(20)).await;
        "served"
    };
    let layer = world.layer().key("one").shadow().observer(heard.clone());
    let app = Router::new().route("/", any(slow)).route_layer(layer);
    world.faulty.always(Op::Renew, Fault::Hang);
    assert_eq!(text(ask(&app, get("/")).await).await, "served");
    assert_eq!(heard.take(), ["/: acquired", "/: lost: Expired", "/: ended after 20000 ms"]);
}

#[tokio::test(start_paused = true)]
async fn observers_hear_of_each_request_under_the_template_of_its_route() {
    let (world, heard) = (World::new(), Heard::default());
    let layer = || world.layer().key("k:{id}").observer(heard.clone());
    let nested = Router::new().route("/items/{id}", any(status)).route_layer(layer());
    let app = Router::new().nest("/shops/{shop}", nested);
    assert_eq!(text(ask(&app, get("/shops/7/items/account-4711")).await).await, "held");
    let named = Router::new().route("/{id}", any(status)).route_layer(layer().route("orders"));
    assert_eq!(text(ask(&named, get("/account-4711")).await).await, "held");
    let other = world.another_process().named("k:account-4711").unwrap().acquire().await.unwrap();
    ask(&named, get("/account-4711")).await;
    other.release().await.unwrap();
    let heard = heard.take();
    let expected = [
        "/shops/{shop}/items/{id}: acquired",
        "/shops/{shop}/items/{id}: ended after 0 ms",
        "orders: acquired",
        "orders: ended after 0 ms",
        "orders: timeout after 1000 ms, Rejected",
    ];
    assert_eq!(heard, expected);
}

/// A panic in an observer is the observer's alone.
#[derive(Debug)]
struct Panics;

impl LayerObserver for Panics {
    fn on_event(&self, _: &LayerEvent<'_>) {
        panic!("an exporter panics");
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_takes_no_lock_with_it() {
    let world = World::new();
    let app = Router::new().route("/", any(status)).layer(world.layer().key("one").observer(Panics));
    assert_eq!(text(ask(&app, get("/")).await).await, "held");
    world.settle().await;
    world.assert_released(1);
}

#[test]
fn every_reason_has_a_word() {
    assert_eq!(RejectReason::Contended.as_str(), "contended");
    assert_eq!(RejectReason::TooManyDetached.as_str(), "overloaded");
}

#[tokio::test(start_paused = true)]
async fn a_shadow_lets_a_client_that_leaves_stop_its_handler_as_before() {
    let (world, tasks) = (World::new(), DetachedTasks::new());
    let layer = world.layer().key("one").detach(&tasks).shadow();
    let app = Router::new().route("/", any(async || std::future::pending::<()>().await)).layer(layer);
    assert!(tokio::time::timeout(millis(100), ask(&app, get("/"))).await.is_err());
    world.settle().await;
    assert_eq!(tasks.running(), 0);
    world.assert_released(1);
}

#[tokio::test(start_paused = true)]
async fn clients_that_leave_the_queue_are_heard_of() {
    let (world, heard) = (World::new(), Heard::default());
    let _other = world.another_process().named("one").unwrap().acquire().await.unwrap();
    let late = KeyTemplate::from_async_fn(|_| std::future::pending());
    for key in [KeyTemplate::try_from("one").unwrap(), late] {
        let layer = world.layer().key(key).observer(heard.clone());
        let app = Router::new().route("/", any(status)).layer(layer);
        assert!(tokio::time::timeout(millis(100), ask(&app, get("/"))).await.is_err());
        assert_eq!(heard.take(), ["/: cancelled after 100 ms"]);
    }
}
