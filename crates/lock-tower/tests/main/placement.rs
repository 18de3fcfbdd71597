//! The requests that take the lock, depending on the layer's placement.

use crate::support::{World, ask, get, post, text};
use axum::{
    Router,
    body::Body,
    handler::Handler,
    routing::{get as on_get, post as on_post},
};
use http::{Method, Request, StatusCode};
use lock_core::LockName;
use lock_testkit::Op;
use lock_tower::{KeyTemplate, LockHandle, LockLayer};

async fn order(lock: LockHandle) -> String {
    lock.name().to_string()
}

fn stock(world: &World) -> LockLayer<KeyTemplate> {
    world.layer().key("stock:{sku}")
}

/// The preflight request that a browser sends before a cross-origin POST.
fn preflight() -> Request<Body> {
    Request::options("/skus/42")
        .header("origin", "https://shop.example")
        .header("access-control-request-method", "POST")
        .body(Body::empty())
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn other_methods_and_preflights_take_no_lock() {
    let world = World::new();
    let methods = [on_post(order).route_layer(stock(&world)), on_post(order.layer(stock(&world)))];
    for method_router in methods {
        let app = Router::new().route("/skus/{sku}", method_router);
        let held = world.another_process().named("stock:42").unwrap().acquire().await.unwrap();
        let began = tokio::time::Instant::now();
        for request in [get("/skus/42"), preflight()] {
            let answer = ask(&app, request).await;
            assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);
            assert_eq!(answer.headers()["allow"], "POST");
        }
        assert!(began.elapsed().is_zero(), "the request does not wait");
        held.release().await.unwrap();
        let before = world.faulty.calls(Op::Acquire);
        assert_eq!(text(ask(&app, post("/skus/42")).await).await, "stock:42");
        assert_eq!(world.faulty.calls(Op::Acquire), before + 1);
        world.settle().await;
    }
    assert_eq!(world.faulty.calls(Op::Acquire), 2, "one per POST");
}

#[tokio::test(start_paused = true)]
async fn reads_beside_a_locked_write_take_no_lock() {
    let world = World::new();
    let writes = on_post(order).route_layer(stock(&world));
    let app = Router::new().route("/skus/{sku}", on_get(async || "read").merge(writes));
    let held = world.another_process().named("stock:42").unwrap().acquire().await.unwrap();
    assert_eq!(text(ask(&app, get("/skus/42")).await).await, "read");
    assert_eq!(world.faulty.calls(Op::Acquire), 0);
    held.release().await.unwrap();
    assert_eq!(text(ask(&app, post("/skus/42")).await).await, "stock:42");
}

/// The documentation warns about both.
#[tokio::test(start_paused = true)]
async fn layers_around_a_route_also_lock_its_405() {
    let world = World::new();
    let route = || Router::new().route("/skus/{sku}", on_post(order));
    let apps = [
        route().route_layer(stock(&world)),
        Router::new().route("/skus/{sku}", on_post(order).layer(stock(&world))),
    ];
    let name = LockName::new("stock:42").unwrap();
    let held = world.another_process().named(name).unwrap().acquire().await.unwrap();
    for app in apps {
        let request = Request::builder().method(Method::DELETE).uri("/skus/42").body(Body::empty()).unwrap();
        assert_eq!(ask(&app, request).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    }
    held.release().await.unwrap();
}

/// The documentation also warns about this.
#[tokio::test(start_paused = true)]
async fn stacked_layers_in_opposite_orders_starve_each_other() {
    let world = World::new();
    let account = |parameter: &str| world.layer().key(KeyTemplate::of("account").path(parameter));
    let transfer = on_post(order).route_layer(account("to")).route_layer(account("from"));
    let app = Router::new().route("/transfer/{from}/{to}", transfer);
    let another = world.another_process();
    let accounts = ["account:1", "account:2"].map(|name| another.named(name).unwrap());
    let (one, two) = (accounts[0].acquire().await.unwrap(), accounts[1].acquire().await.unwrap());
    let answers = ["/transfer/1/2", "/transfer/2/1"].map(|path| {
        let app = app.clone();
        tokio::spawn(async move { ask(&app, post(path)).await.status() })
    });
    world.settle().await;
    tokio::try_join!(one.release(), two.release()).unwrap();
    let answers = futures_util::future::join_all(answers).await;
    let served = answers.into_iter().filter(|status| *status.as_ref().unwrap() == StatusCode::OK).count();
    assert_eq!(served, 0);
    world.settle().await;
    assert!(!world.is_held());
}
