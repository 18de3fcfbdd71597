//! Misconfigured routes respond with 500 and log the reason.

use super::{Sku, Transfer, json, layer, order, orders, sku};
use crate::support::{World, ask, get, problem, text};
use axum::{
    Json, Router,
    extract::Path,
    routing::{get as on_get, post},
};
use http::{Method, Request, StatusCode};
use lock_testkit::{Op, ThreadLog};
use lock_tower::{LockHandle, LockSetHandle, LockSlot, LockStatus, Locked};
use tracing::level_filters::LevelFilter;

/// Checks for a 500 whose reason is logged but not sent.
async fn rejects(app: &Router, request: Request<axum::body::Body>, why: &str) {
    let log = ThreadLog::listen(LevelFilter::INFO);
    let json = problem(ask(app, request).await, StatusCode::INTERNAL_SERVER_ERROR).await;
    assert_eq!(json["detail"], "the server is misconfigured");
    let said = log.text();
    assert!(said.contains("ERROR") && said.contains(why), "{said}");
}

#[tokio::test(start_paused = true)]
async fn route_without_in_handler_is_logged() {
    let world = World::new();
    let why = "put one on its method, as in `post(handler).layer(lock.in_handler())`";
    let bare = Router::new()
        .route("/orders", post(order))
        .route("/slot", post(async |_: LockSlot| "never"))
        .route("/skus/{sku}", post(async |_: Locked<Path<Sku>>| "never"));
    for path in ["/orders", "/slot", "/skus/7"] {
        rejects(&bare, json(path, "not read"), why).await;
    }
    let keyed = Router::new().route("/keyed", post(order).route_layer(world.layer().key("one")));
    rejects(&keyed, json("/keyed", "not read"), why).await;
    world.settle().await;
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn handle_before_the_lock_is_logged() {
    let world = World::new();
    let app = Router::new()
        .route("/handle", post(async |_: LockHandle, _: Locked<Json<Sku>>| "never"))
        .route("/option", post(async |_: Option<LockHandle>, _: Locked<Json<Sku>>| "never"))
        .route("/set", post(async |_: Option<LockSetHandle>| "never"))
        .route("/status", post(async |_: LockStatus| "never"))
        .route_layer(layer(&world));
    for path in ["/handle", "/option", "/set", "/status"] {
        rejects(&app, json(path, "{\"sku\":7}"), "get the handle from `Locked` or `LockSlot`").await;
    }
    assert_eq!(world.faulty.calls(Op::Acquire), 0);
}

#[tokio::test(start_paused = true)]
async fn handle_is_available_after_the_lock() {
    let world = World::new();
    let handler = async |Locked(Path(sku), one): Locked<Path<Sku>>, two: LockHandle, _: LockStatus| {
        assert_eq!(one.fencing_token(), two.fencing_token());
        format!("{} {}", sku.sku, two.name())
    };
    let app = Router::new().route("/{sku}", on_get(handler).layer(layer(&world)));
    assert_eq!(text(ask(&app, get("/07")).await).await, "7 stock:7");
}

#[tokio::test(start_paused = true)]
async fn second_lock_in_one_request_is_logged() {
    let world = World::new();
    let handler = async |_: Locked<Path<Sku>>, _: Locked<Json<Sku>>| "never";
    let app = Router::new().route("/{sku}", post(handler).layer(layer(&world)));
    rejects(&app, json("/1", "{\"sku\":2}"), "acquire all of its locks at once").await;
    world.settle().await;
    world.assert_released(1);
}

#[tokio::test(start_paused = true)]
async fn wrong_handle_type_is_logged() {
    let world = World::new();
    let app = Router::new()
        .route("/wrong/one", post(async |_: Locked<Json<Sku>, LockSetHandle>| "never"))
        .route("/wrong/several", post(async |_: Locked<Json<Transfer>, Option<LockHandle>>| "never"))
        .route("/right", post(async |_: Locked<Json<Transfer>, Option<LockSetHandle>>| "served"))
        .route_layer(layer(&world));
    rejects(&app, json("/wrong/one", "{\"sku\":7}"), "extract `LockHandle`").await;
    rejects(&app, json("/wrong/several", "{\"from\":1,\"to\":1}"), "extract `LockSetHandle`").await;
    assert_eq!(text(ask(&app, json("/right", "{\"from\":1,\"to\":2}")).await).await, "served");
    world.settle().await;
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn other_methods_take_no_lock() {
    let world = World::new();
    let app = orders(layer(&world));
    for method in [Method::GET, Method::HEAD, Method::OPTIONS, Method::DELETE] {
        let request = Request::builder().method(method).uri("/orders").body("".into()).unwrap();
        assert_eq!(ask(&app, request).await.status(), StatusCode::METHOD_NOT_ALLOWED);
    }
    assert_eq!(world.faulty.calls(Op::Acquire), 0);
}

/// The filter determines whether a handler needs the lock, as with layer keys.
#[tokio::test(start_paused = true)]
async fn filtered_requests_need_an_optional_handle() {
    let world = World::new();
    let option =
        async |Locked(Json(_), lock): Locked<Json<Sku>, Option<LockHandle>>| lock.is_some().to_string();
    let app = |layer| {
        Router::new()
            .route("/filtered/handle", post(order))
            .route("/filtered/status", post(async |_: Locked<Json<Sku>, LockStatus>| "never"))
            .route("/filtered/option", post(option))
            .route_layer(layer)
    };
    let filtered = app(layer(&world).filter(|_| false));
    rejects(&filtered, json("/filtered/status", "{\"sku\":7}"), "extract `Option<LockHandle>` if its filter")
        .await;
    rejects(&filtered, json("/filtered/handle", "{\"sku\":7}"), "extract `Option<LockHandle>` if its filter")
        .await;
    assert_eq!(text(ask(&filtered, json("/filtered/option", "{\"sku\":7}")).await).await, "false");
    assert_eq!(world.faulty.calls(Op::Acquire), 0);
    let locked = app(layer(&world).methods([Method::POST]));
    assert_eq!(text(ask(&locked, json("/filtered/option", "{\"sku\":7}")).await).await, "true");
}

/// A layer whose filter lets a request pass does not affect the outer layer.
#[tokio::test(start_paused = true)]
async fn filtered_inner_layer_keeps_the_outer_lock() {
    let world = World::new();
    let option =
        async |Locked(Json(_), lock): Locked<Json<Sku>, Option<LockHandle>>| lock.is_some().to_string();
    let filtered = post(option).route_layer(layer(&world).filter(|_| false));
    let app = Router::new().route("/orders", filtered.route_layer(layer(&world)));
    assert_eq!(text(ask(&app, sku(7)).await).await, "true");
}

#[tokio::test(start_paused = true)]
async fn handle_of_an_outer_layer_is_not_used() {
    let world = World::new();
    let early = post(async |_: LockHandle, _: Locked<Json<Sku>>| "never").route_layer(layer(&world));
    let late = async |Locked(_, lock): Locked<Path<Sku>>, later: LockHandle| {
        assert_eq!(lock.fencing_token(), later.fencing_token());
        later.name().to_string()
    };
    let app = Router::new()
        .route("/early", early)
        .route("/late/{sku}", post(late).route_layer(layer(&world)))
        .route_layer(world.layer().key("outer"));
    rejects(&app, json("/early", "{\"sku\":7}"), "get the handle from `Locked` or `LockSlot`").await;
    assert_eq!(text(ask(&app, json("/late/7", "")).await).await, "stock:7");
    world.settle().await;
    world.assert_nothing_left();
}
