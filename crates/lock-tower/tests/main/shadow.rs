//! Shadow mode: measures its effect without affecting any request.

use crate::support::{Recorder, World, ask, get, millis, secs, text};
use axum::{Router, routing::any};
use lock_testkit::{Fault, Op};
use lock_tower::{DetachedTasks, KeyTemplate, LockStatus};

async fn status(status: LockStatus) -> String {
    match status {
        LockStatus::Held(_) | LockStatus::HeldSet(_) => "held".to_owned(),
        LockStatus::Unlocked(reason) => format!("without: {}", reason.as_str()),
    }
}

#[tokio::test(start_paused = true)]
async fn never_rejects_and_reports_the_reason() {
    let (world, recorder) = (World::new(), Recorder::default());
    let app = |key: KeyTemplate| {
        let layer = world.layer().key(key).shadow().wait(millis(200)).observer(recorder.clone());
        Router::new().route("/{id}", any(status)).route_layer(layer)
    };
    let by_path = app("k:{id}".try_into().unwrap());
    assert_eq!(text(ask(&by_path, get("/1")).await).await, "held");
    world.settle().await;
    assert_eq!(recorder.take(), ["/{id}: acquired", "/{id}: ended after 0 ms"]);

    let other = world.another_process().named("k:1").unwrap().acquire().await.unwrap();
    assert_eq!(text(ask(&by_path, get("/1")).await).await, "without: timeout");
    assert_eq!(recorder.take(), ["/{id}: timeout after 200 ms, PassThrough"]);
    other.release().await.unwrap();

    let wired_wrongly = app("k:{sku}".try_into().unwrap());
    assert_eq!(text(ask(&wired_wrongly, get("/1")).await).await, "without: misconfigured");
    world.faulty.always(Op::Acquire, Fault::Hang);
    assert_eq!(text(ask(&by_path, get("/1")).await).await, "without: backend_error");
    let events = recorder.take();
    assert!(events.iter().all(|event| event.ends_with("PassThrough")), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn loss_does_not_stop_the_handler() {
    let (world, recorder) = (World::new(), Recorder::default());
    let slow = async || {
        tokio::time::sleep(secs(20)).await;
        "served"
    };
    let layer = world.layer().key("one").shadow().observer(recorder.clone());
    let app = Router::new().route("/", any(slow)).route_layer(layer);
    world.faulty.always(Op::Renew, Fault::Hang);
    assert_eq!(text(ask(&app, get("/")).await).await, "served");
    assert_eq!(recorder.take(), ["/: acquired", "/: lost: Expired", "/: ended after 20000 ms"]);
}

#[tokio::test(start_paused = true)]
async fn client_disconnect_stops_the_handler() {
    let (world, tasks) = (World::new(), DetachedTasks::new());
    let layer = world.layer().key("one").detach(&tasks).shadow();
    let app = Router::new().route("/", any(async || std::future::pending::<()>().await)).layer(layer);
    assert!(tokio::time::timeout(millis(100), ask(&app, get("/"))).await.is_err());
    world.settle().await;
    assert_eq!(tasks.running(), 0);
    world.assert_released(1);
}
