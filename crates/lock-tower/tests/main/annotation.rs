//! Locks added to routes with `LockedExt`: `post(order).locked(&lock, "stock:{sku}")`.

use crate::support::{World, ask, get, post, problem, secs, text};
use axum::{
    Router,
    body::Body,
    extract::Path,
    handler::Handler,
    routing::{any, delete, get as on_get, post as on_post},
};
use http::{Method, Request, StatusCode};
use lock_core::LockName;
use lock_testkit::{Op, ThreadLog};
use lock_tower::{DetachedTasks, KeyTemplate, LockHandle, LockSetHandle, LockedExt};
use tracing::level_filters::LevelFilter;

async fn which(lock: LockHandle) -> String {
    lock.name().to_string()
}

async fn names(locks: LockSetHandle) -> String {
    locks.names().map(LockName::as_str).collect::<Vec<_>>().join(" ")
}

fn request(method: Method, path: &str) -> Request<Body> {
    Request::builder().method(method).uri(path).body(Body::empty()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn only_the_methods_of_the_route_take_the_lock() {
    let world = World::new();
    let lock = world.layer();
    let writes = on_post(which).delete(which).locked(&lock, "stock:{sku}");
    let app = Router::new()
        .route("/skus/{sku}", writes.clone())
        .route("/read/{sku}", on_get(async || "read").merge(writes));
    let held = world.another_process().named("stock:42").unwrap().acquire().await.unwrap();
    for method in [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT] {
        let answer = ask(&app, request(method, "/skus/42")).await;
        assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(answer.headers()["allow"], "POST,DELETE");
    }
    assert_eq!(text(ask(&app, get("/read/42")).await).await, "read");
    assert_eq!(ask(&app, request(Method::HEAD, "/read/42")).await.status(), StatusCode::OK);
    assert_eq!(world.faulty.calls(Op::Acquire), 0);
    held.release().await.unwrap();
    for method in [Method::POST, Method::DELETE] {
        assert_eq!(text(ask(&app, request(method, "/read/42")).await).await, "stock:42");
    }
    world.settle().await;
    world.assert_released(2);
}

/// HEAD runs the GET handler.
#[tokio::test(start_paused = true)]
async fn head_of_a_locked_get_takes_the_lock() {
    let world = World::new();
    let app = Router::new().route("/{sku}", on_get(which).locked(&world.layer(), "stock:{sku}"));
    assert_eq!(ask(&app, request(Method::HEAD, "/42")).await.status(), StatusCode::OK);
    world.settle().await;
    world.assert_released(1);
}

#[tokio::test(start_paused = true)]
async fn nested_routers_fill_the_template() {
    let world = World::new();
    let inner =
        Router::new().route("/skus/{sku}", on_post(which).locked(&world.layer(), "stock:{house}:{sku}"));
    let app = Router::new().nest("/houses/{house}", inner);
    assert_eq!(text(ask(&app, post("/houses/eu/skus/7")).await).await, "stock:eu:7");
}

#[tokio::test(start_paused = true)]
async fn mismatched_template_is_500_and_logged_once() {
    let world = World::new();
    let lock = world.layer();
    let app = Router::new()
        .route("/houses/{house}/skus/{id}", on_post(which).locked(&lock, "stock:{sku}"))
        .route("/other/{id}", on_post(which).locked(&lock, "stock:{sku}"));
    let log = ThreadLog::listen(LevelFilter::INFO);
    for _ in 0..3 {
        for path in ["/houses/eu/skus/7", "/other/7"] {
            let json = problem(ask(&app, post(path)).await, StatusCode::INTERNAL_SERVER_ERROR).await;
            assert_eq!(json["detail"], "the server is misconfigured");
        }
    }
    assert_eq!(world.faulty.calls(Op::Acquire), 0);
    let said = log.text();
    assert_eq!(log.count("ERROR"), 2, "one error per route: {said}");
    assert!(said.contains("no path parameter `sku`: it has `house`, `id`"), "{said}");
    assert!(said.contains("/other/{id}") && !said.contains("/other/7"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn several_keys_are_locked_together() {
    let world = World::new();
    let account = |parameter| KeyTemplate::of("account").path_as::<u64>(parameter);
    let transfer = on_post(names).locked_all(&world.layer(), [account("from"), account("to")]);
    let app = Router::new().route("/{from}/{to}", transfer);
    assert_eq!(text(ask(&app, post("/+2/01")).await).await, "account:1 account:2");
}

#[tokio::test(start_paused = true)]
async fn one_layer_annotates_routes_with_state_and_detached_handlers() {
    async fn stateful(
        axum::extract::State(shop): axum::extract::State<u64>,
        Path(sku): Path<u64>,
        lock: LockHandle,
    ) -> String {
        format!("{shop} {sku} {}", lock.name())
    }
    let (world, tasks) = (World::new(), DetachedTasks::new());
    let lock = world.layer().detach(&tasks);
    let slow = async || tokio::time::sleep(secs(1)).await;
    let app = Router::new()
        .route("/{sku}", on_post(stateful).locked(&lock, "stock:{sku}"))
        .route("/slow", delete(slow).locked(&lock, "slow"))
        .with_state(3);
    assert_eq!(text(ask(&app, post("/7")).await).await, "3 7 stock:7");
    let asking = tokio::time::timeout(secs(0), ask(&app, request(Method::DELETE, "/slow"))).await;
    assert!(asking.is_err());
    world.settle().await;
    assert_eq!(tasks.running(), 1, "the handler continues");
    tasks.drain(secs(2)).await.unwrap();
}

#[test]
#[should_panic(expected = "unmatched brace")]
fn malformed_template_panics_when_the_route_is_built() {
    let world = World::new();
    let _ = on_post::<_, _, ()>(which).locked(&world.layer(), "stock:{sku");
}

#[test]
#[should_panic(expected = "lock all of them with `any(handler.layer(lock.key(…)))`")]
fn router_without_methods_panics_when_it_is_built() {
    let world = World::new();
    let _ = any::<_, _, ()>(which).locked(&world.layer(), "stock:{sku}");
}

#[test]
#[should_panic(expected = "there are no methods to lock")]
fn router_without_methods_panics_with_several_keys() {
    let world = World::new();
    let _ = any::<_, _, ()>(which).locked_all(&world.layer(), ["one", "two"]);
}

/// The message suggests it.
#[tokio::test(start_paused = true)]
async fn handler_of_all_methods_is_locked_by_its_own_layer() {
    let world = World::new();
    let app = Router::new().route("/{sku}", any(which.layer(world.layer().key("stock:{sku}"))));
    for method in [Method::GET, Method::PUT] {
        assert_eq!(text(ask(&app, request(method, "/7")).await).await, "stock:7");
    }
}
