//! Locks acquired in the handler have the usual life cycle: waits, rejections, losses, detached
//! handlers and the end of the body.

use super::{Sku, json, layer, orders, sku};
use crate::support::{Gauge, Recorder, World, ask, millis, problem, secs, text};
use axum::{Json, Router, body::Body, routing::post};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, poll, stream};
use http::StatusCode;
use http_body_util::BodyExt;
use lock_core::{LockFactory, backend::BackendErrorKind};
use lock_testkit::{Fault, Op, Phase};
use lock_tower::{
    DetachedTasks, LockHandle, LockLost, LockStatus, Locked, OnLost, RejectReason, WithoutLock,
};
use std::{
    convert::Infallible,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::task::JoinSet;

#[tokio::test(start_paused = true)]
async fn requests_of_one_value_run_one_at_a_time() {
    let (world, gauge) = (World::new(), Gauge::default());
    let inside = gauge.clone();
    let handler = async move |Locked(Json(_), lock): Locked<Json<Sku>>| {
        let _inside = inside.enter();
        tokio::time::sleep(millis(10)).await;
        assert!(lock.is_held());
    };
    let app = Router::new().route("/orders", post(handler).layer(layer(&world).wait(secs(10))));
    let mut requests = JoinSet::new();
    for _ in 0..50 {
        let app = app.clone();
        requests.spawn(async move { ask(&app, sku(7)).await.status() });
    }
    assert_eq!(requests.join_all().await, [StatusCode::OK; 50]);
    assert_eq!(gauge.most(), 1);
    world.settle().await;
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn rejections_match_the_layer() {
    let (world, recorder) = (World::new(), Recorder::default());
    let held = world.another_process().named("stock:7").unwrap().acquire().await.unwrap();
    let waits = orders(layer(&world).observer(recorder.clone()));
    let json = problem(ask(&waits, sku(7)).await, StatusCode::SERVICE_UNAVAILABLE).await;
    assert_eq!(json["reason"], "timeout");
    assert!(json["key_hash"].is_string() && json["retry_after_ms"].is_u64(), "{json}");
    assert_eq!(recorder.take(), ["/orders: timeout after 1000 ms, Reject"]);

    problem(ask(&orders(layer(&world).fail_fast()), sku(7)).await, StatusCode::CONFLICT).await;
    let full = orders(layer(&world).max_waiters(0));
    let json = problem(ask(&full, sku(7)).await, StatusCode::SERVICE_UNAVAILABLE).await;
    assert_eq!(json["reason"], "overloaded");
    let own = layer(&world)
        .fail_fast()
        .on_reject(|rejection| rejection.with_status(StatusCode::LOCKED).into_problem_response());
    problem(ask(&orders(own), sku(7)).await, StatusCode::LOCKED).await;
    held.release().await.unwrap();

    let app = orders(layer(&world).observer(recorder.clone()));
    assert_eq!(text(ask(&app, sku(7)).await).await, "stock:7");
    world.settle().await;
    assert_eq!(recorder.take(), ["/orders: acquired", "/orders: ended after 0 ms"]);
    world.locks.shutdown().await;
    let json = problem(ask(&app, sku(7)).await, StatusCode::SERVICE_UNAVAILABLE).await;
    assert_eq!(json["reason"], "shut_down");
}

#[tokio::test(start_paused = true)]
async fn outages_are_rejected_or_allowed() {
    let world = World::new();
    world.faulty.always(Op::Acquire, Fault::FailBefore(BackendErrorKind::Unavailable));
    problem(ask(&orders(layer(&world)), sku(7)).await, StatusCode::SERVICE_UNAVAILABLE).await;

    let allows = layer(&world).on_unavailable(WithoutLock::PassThrough);
    let status = async |Locked(_, status): Locked<Json<Sku>, LockStatus>| {
        matches!(status.unlocked(), Some(RejectReason::Unavailable(_))).to_string()
    };
    let option = async |Locked(_, lock): Locked<Json<Sku>, Option<LockHandle>>| lock.is_none().to_string();
    let app = Router::new()
        .route("/handle", post(async |_: Locked<Json<Sku>>| "never"))
        .route("/status", post(status))
        .route("/option", post(option))
        .route_layer(allows);
    let json_7 = |path| json(path, "{\"sku\":7}");
    problem(ask(&app, json_7("/handle")).await, StatusCode::SERVICE_UNAVAILABLE).await;
    assert_eq!(text(ask(&app, json_7("/status")).await).await, "true");
    assert_eq!(text(ask(&app, json_7("/option")).await).await, "true");
}

#[tokio::test(start_paused = true)]
async fn shadow_mode_lets_every_request_run() {
    let world = World::new();
    let _held = world.another_process().named("stock:7").unwrap().acquire().await.unwrap();
    let status = async |Locked(_, status): Locked<Json<Sku>, LockStatus>| {
        matches!(status.unlocked(), Some(RejectReason::Timeout)).to_string()
    };
    let app = Router::new().route("/orders", post(status).layer(layer(&world).shadow()));
    assert_eq!(text(ask(&app, sku(7)).await).await, "true");
}

#[tokio::test(start_paused = true)]
async fn lost_lock_stops_the_handler() {
    for detached in [false, true] {
        let world = World::new();
        let stops = |max_hold| layer(&world).max_hold(max_hold);
        let handler = async |Locked(_, lock): Locked<Json<Sku>>| {
            lock.ended().await;
            tokio::time::sleep(secs(1)).await;
            "went on"
        };
        let route = |lock| Router::new().route("/orders", post(handler).layer(lock));
        let tasks = DetachedTasks::new();
        let app = match detached {
            true => Router::new().route("/orders", post(handler).layer(stops(secs(2)).detach(&tasks))),
            false => route(stops(secs(2))),
        };
        let json = problem(ask(&app, sku(7)).await, StatusCode::SERVICE_UNAVAILABLE).await;
        assert_eq!(json["reason"], "lost");
        let signals = route(stops(secs(2)).on_lost(OnLost::Signal));
        assert_eq!(text(ask(&signals, sku(7)).await).await, "went on");
        world.settle().await;
        assert_eq!(tasks.running(), 0);
        world.assert_nothing_left();
    }
}

/// Ten chunks, one every 200 ms, which takes longer than detecting a loss.
async fn streams(_: Locked<Json<Sku>>) -> Body {
    let chunk = |_| async {
        tokio::time::sleep(millis(200)).await;
        Ok::<_, Infallible>(Bytes::from_static(b"chunk"))
    };
    Body::from_stream(stream::iter(0..10).then(chunk))
}

#[tokio::test(start_paused = true)]
async fn lock_is_kept_to_the_end_of_the_body() {
    for detached in [false, true] {
        let (world, tasks) = (World::new(), DetachedTasks::new());
        let app = match detached {
            true => post(streams).layer(layer(&world).detach(&tasks)),
            false => post(streams).layer(layer(&world)),
        };
        let app = Router::new().route("/orders", app);
        let mut body = ask(&app, sku(7)).await.into_body();
        for _ in 0..10 {
            world.settle().await;
            assert!(world.is_held());
            assert!(body.frame().await.unwrap().is_ok());
        }
        assert!(body.frame().await.is_none());
        world.settle().await;
        world.assert_released(1);

        let mut body = ask(&app, sku(7)).await.into_body();
        assert!(body.frame().await.unwrap().is_ok());
        world.another_process().force_release("stock:7").await.unwrap();
        let error = loop {
            match body.frame().await.unwrap() {
                Ok(_) => {}
                Err(error) => break error.into_inner(),
            }
        };
        assert!(error.downcast_ref::<LockLost>().is_some(), "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn detached_handler_continues_once_it_has_its_lock() {
    let (world, tasks, done) = (World::new(), DetachedTasks::new(), Arc::new(AtomicUsize::new(0)));
    let counted = done.clone();
    let handler = async move |Locked(_, lock): Locked<Json<Sku>>| {
        tokio::time::sleep(millis(500)).await;
        assert!(lock.is_held());
        counted.fetch_add(1, Ordering::SeqCst);
        "done"
    };
    let app = Router::new().route("/orders", post(handler).layer(layer(&world).detach(&tasks)));
    assert!(tokio::time::timeout(millis(100), ask(&app, sku(7))).await.is_err());
    assert_eq!(tasks.running(), 1);
    tasks.drain(secs(5)).await.unwrap();
    world.settle().await;
    assert_eq!(done.load(Ordering::SeqCst), 1);
    world.assert_released(1);

    // A waiter is dropped with its client.
    let held = world.another_process().named("stock:7").unwrap().acquire().await.unwrap();
    assert!(tokio::time::timeout(millis(100), ask(&app, sku(7))).await.is_err());
    assert_eq!(tasks.running(), 0);
    held.release().await.unwrap();
    tokio::time::sleep(secs(10)).await;
    assert_eq!(done.load(Ordering::SeqCst), 1);
    world.assert_nothing_left();

    // A response before the lock needs no task.
    assert_eq!(ask(&app, json("/orders", "{}")).await.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(text(ask(&app, sku(7)).await).await, "done");
}

/// The store hangs before or after each of its operations.
#[tokio::test(start_paused = true)]
async fn request_dropped_at_any_step_leaves_nothing() {
    let gates = [(Op::Acquire, Phase::Before), (Op::Acquire, Phase::After), (Op::Release, Phase::Before)];
    for ((op, phase), detached) in gates.into_iter().flat_map(|gate| [(gate, false), (gate, true)]) {
        for steps in 0..10 {
            let (world, tasks) = (World::new(), DetachedTasks::new());
            let handler = async |Locked(_, lock): Locked<Json<Sku>>| {
                tokio::task::yield_now().await;
                assert!(lock.is_held());
                tokio::task::yield_now().await;
                "done"
            };
            let app = match detached {
                true => post(handler).layer(layer(&world).detach(&tasks)),
                false => post(handler).layer(layer(&world)),
            };
            let app = Router::new().route("/orders", app);
            let gate = world.faulty.gate(op, phase);
            let mut request = Box::pin(ask(&app, sku(7)));
            for _ in 0..steps {
                if poll!(request.as_mut()).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            drop(request);
            tokio::task::yield_now().await;
            drop(gate);
            tokio::time::sleep(secs(10)).await;
            assert_eq!(tasks.running(), 0);
            world.assert_nothing_left();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn full_task_limit_rejects_and_leaves_no_lock() {
    let (world, tasks) = (World::new(), DetachedTasks::with_limit(0));
    let app = Router::new().route("/orders", post(super::order).layer(layer(&world).detach(&tasks)));
    let json = problem(ask(&app, sku(7)).await, StatusCode::SERVICE_UNAVAILABLE).await;
    assert_eq!(json["reason"], "overloaded");
    world.settle().await;
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn panics_continue_and_release() {
    for detached in [false, true] {
        let (world, tasks) = (World::new(), DetachedTasks::new());
        let handler = async |_: Locked<Json<Sku>>| -> &'static str { panic!("the handler fails") };
        let app = match detached {
            true => post(handler).layer(layer(&world).detach(&tasks)),
            false => post(handler).layer(layer(&world)),
        };
        let app = Router::new().route("/orders", app);
        assert!(AssertUnwindSafe(ask(&app, sku(7))).catch_unwind().await.is_err());
        world.settle().await;
        world.assert_released(1);
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_waiter_leaves_nothing_behind() {
    let (world, recorder) = (World::new(), Recorder::default());
    let app = orders(layer(&world).observer(recorder.clone()));
    let another: LockFactory = world.another_process();
    let held = another.named("stock:7").unwrap().acquire().await.unwrap();
    assert!(tokio::time::timeout(millis(100), ask(&app, sku(7))).await.is_err());
    assert_eq!(recorder.take(), ["/orders: cancelled after 100 ms"]);
    held.release().await.unwrap();
    tokio::time::sleep(secs(10)).await;
    world.assert_nothing_left();
}
