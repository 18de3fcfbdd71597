//! Keys from several values, the path and the body.

use super::{Sku, json, layer};
use crate::support::{Recorder, World, ask, millis, post, problem, secs, text};
use axum::{Json, Router, extract::Path, routing::post as on_post};
use bytes::Bytes;
use futures_util::poll;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use lock_core::{LockName, NameError};
use lock_testkit::Op;
use lock_tower::{DetachedTasks, LockMissing, LockSlot};
use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};
use tower::{Layer, Service, ServiceExt, service_fn};

#[tokio::test(start_paused = true)]
async fn path_and_body_form_one_key() {
    let world = World::new();
    let handler = async |Path(house): Path<u64>, slot: LockSlot, Json(sku): Json<Sku>| {
        let lock = slot.lock(LockName::of(("stock", house, sku.sku))).await?;
        assert!(lock.is_held());
        Ok::<_, LockMissing>(lock.name().to_string())
    };
    let app = Router::new().route("/{house}", on_post(handler).layer(layer(&world)));
    assert_eq!(text(ask(&app, json("/01", "{\"sku\":7}")).await).await, "stock:1:7");
    world.settle().await;
    world.assert_released(1);
}

#[tokio::test(start_paused = true)]
async fn several_names_are_locked_together() {
    let world = World::new();
    let handler = async |Path((from, to)): Path<(u64, u64)>, slot: LockSlot| {
        let names = [from, to].into_iter().map(|account| LockName::of(("account", account)));
        let locks = slot.lock_all(names.collect()).await?;
        Ok::<_, LockMissing>(locks.names().map(LockName::as_str).collect::<Vec<_>>().join(" "))
    };
    let app = Router::new().route("/{from}/{to}", on_post(handler).layer(layer(&world)));
    assert_eq!(text(ask(&app, post("/2/1")).await).await, "account:1 account:2");
    assert_eq!(text(ask(&app, post("/1/1")).await).await, "account:1");
}

#[tokio::test(start_paused = true)]
async fn invalid_names_are_rejected_by_the_layer() {
    let world = World::new();
    let handler = async |slot: LockSlot, name: String| -> String {
        let lock = slot.lock(LockName::of(("stock", name))).await;
        panic!("the handler continued: {lock:?}")
    };
    let app = Router::new().route("/", on_post(handler).layer(layer(&world)));
    problem(ask(&app, post("/")).await, StatusCode::BAD_REQUEST).await;
    let unwritten = async |slot: LockSlot| -> String {
        let lock = slot.lock(Err(NameError::UnwrittenPart { part: 0 })).await;
        panic!("the handler continued: {lock:?}")
    };
    let app = Router::new().route("/", on_post(unwritten).layer(layer(&world)));
    problem(ask(&app, post("/")).await, StatusCode::INTERNAL_SERVER_ERROR).await;
}

#[tokio::test(start_paused = true)]
async fn second_call_returns_an_error() {
    let world = World::new();
    let handler = async |slot: LockSlot| {
        let one = slot.lock(LockName::new("one")).await.unwrap();
        assert_eq!(slot.clone().lock(LockName::new("two")).await.unwrap_err(), LockMissing::SecondLock);
        one.is_held().to_string()
    };
    let app = Router::new().route("/", on_post(handler).layer(layer(&world)));
    assert_eq!(text(ask(&app, post("/")).await).await, "true");
    world.settle().await;
    world.assert_released(1);
}

#[tokio::test(start_paused = true)]
async fn abandoned_wait_leaves_the_queue() {
    let (world, recorder) = (World::new(), Recorder::default());
    let handler = async |slot: LockSlot| {
        let waited = tokio::time::timeout(millis(100), slot.lock(LockName::new("one"))).await;
        assert!(waited.is_err());
        tokio::time::sleep(secs(10)).await;
        "without"
    };
    let lock = layer(&world).wait(secs(5)).observer(recorder.clone());
    let app = Router::new().route("/", on_post(handler).layer(lock));
    let held = world.another_process().named("one").unwrap().acquire().await.unwrap();
    assert_eq!(text(ask(&app, post("/")).await).await, "without");
    assert_eq!(recorder.take(), ["/: cancelled after 100 ms"]);
    held.release().await.unwrap();
    world.settle().await;
    assert_eq!(world.faulty.calls(Op::Release), 0, "the lock was never acquired");
    world.assert_nothing_left();
}

/// The layer already holds the lock and has sent the reply.
#[tokio::test(start_paused = true)]
async fn unread_reply_releases_its_lock() {
    for detached in [false, true] {
        let (world, tasks, recorder) = (World::new(), DetachedTasks::new(), Recorder::default());
        let another = world.another_process();
        let handler = async move |slot: LockSlot| {
            let mut asks = Box::pin(slot.lock(LockName::new("one")));
            assert!(poll!(asks.as_mut()).is_pending());
            tokio::task::yield_now().await;
            drop(asks);
            tokio::time::sleep(secs(1)).await;
            another.named("one").unwrap().try_acquire().await.unwrap().is_some().to_string()
        };
        let lock = layer(&world).observer(recorder.clone());
        let app = match detached {
            true => on_post(handler).layer(lock.detach(&tasks)),
            false => on_post(handler).layer(lock),
        };
        let app = Router::new().route("/", app);
        assert_eq!(text(ask(&app, post("/")).await).await, "true", "detached {detached}");
        assert_eq!(recorder.take(), ["/: acquired", "/: ended after 0 ms"]);
        world.settle().await;
        world.assert_released(1);
    }
}

/// A service may keep a future that has completed.
#[tokio::test(start_paused = true)]
async fn response_ends_a_task_wait() {
    let world = World::new();
    let held = world.another_process().named("one").unwrap().acquire().await.unwrap();
    let (says, said) = tokio::sync::oneshot::channel();
    let says = Mutex::new(Some(says));
    let service = service_fn(async |request: Request<Full<Bytes>>| {
        let slot = request.extensions().get::<LockSlot>().unwrap().clone();
        let says = says.lock().unwrap().take().unwrap();
        tokio::spawn(async move { says.send(slot.lock(LockName::new("one")).await.unwrap_err()) });
        tokio::time::sleep(millis(10)).await;
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    });
    let mut service = layer(&world).layer(service);
    let mut kept = Box::pin(service.call(Request::new(Full::default())));
    assert_eq!(kept.as_mut().await.unwrap().status(), StatusCode::OK);
    let said = tokio::time::timeout(secs(5), said).await.unwrap();
    assert_eq!(said.unwrap(), LockMissing::RequestEnded);
    held.release().await.unwrap();
    tokio::time::sleep(secs(10)).await;
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn slot_of_an_ended_request_locks_nothing() {
    let (world, kept) = (World::new(), Arc::new(Mutex::new(None)));
    let keeps = kept.clone();
    let handler = async move |slot: LockSlot| *keeps.lock().unwrap() = Some(slot);
    let app = Router::new().route("/", on_post(handler).layer(layer(&world)));
    assert_eq!(ask(&app, post("/")).await.status(), StatusCode::OK);
    let slot = kept.lock().unwrap().take().unwrap();
    assert_eq!(slot.lock(LockName::new("one")).await.unwrap_err(), LockMissing::RequestEnded);
    assert_eq!(world.faulty.calls(Op::Acquire), 0);
}

/// Another task can request the lock of a running request.
#[tokio::test(start_paused = true)]
async fn spawned_task_can_request_the_lock() {
    let world = World::new();
    let handler = async |slot: LockSlot| {
        let asks = tokio::spawn(async move {
            tokio::time::sleep(millis(10)).await;
            slot.lock(LockName::new("one")).await.unwrap()
        });
        asks.await.unwrap().is_held().to_string()
    };
    let app = Router::new().route("/", on_post(handler).layer(layer(&world)));
    assert_eq!(text(ask(&app, post("/")).await).await, "true");
    world.settle().await;
    world.assert_released(1);
}

/// A service without axum finds the slot in the extensions.
#[tokio::test(start_paused = true)]
async fn service_without_axum_uses_the_slot_extension() {
    let world = World::new();
    let service = service_fn(async |request: Request<Full<Bytes>>| {
        let slot = request.extensions().get::<LockSlot>().unwrap().clone();
        let body = request.into_body().collect().await?.to_bytes();
        let lock = slot.lock(LockName::of(("stock", String::from_utf8_lossy(&body)))).await.unwrap();
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(lock.name().to_string())))
    });
    let request = Request::post("/").body(Full::from("7")).unwrap();
    let answer = layer(&world).layer(service).oneshot(request).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "stock:7");
    world.settle().await;
    world.assert_released(1);
}
