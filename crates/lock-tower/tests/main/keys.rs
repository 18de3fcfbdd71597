//! Key sources. Requests without a key are rejected, wherever the layer is placed.

use crate::support::{World, ask, get, post, problem, text};
use axum::{
    Router,
    body::Body,
    extract::Path,
    routing::{any, get as on_get, post as on_post},
};
use http::{Request, StatusCode};
use lock_core::LockName;
use lock_testkit::{Op, ThreadLog};
use lock_tower::{KeyError, KeyTemplate, LockHandle, LockLayer, WithoutLock};
use tower::{Layer, Service, ServiceBuilder, ServiceExt};
use tracing::level_filters::LevelFilter;

/// Returns the name of the request's lock.
async fn which(lock: LockHandle) -> String {
    lock.name().to_string()
}

fn stock(world: &World) -> LockLayer<KeyTemplate> {
    world.layer().key("stock:{sku}")
}

/// Asserts that the request is rejected without a lock.
async fn assert_rejected(world: &World, app: &Router, request: Request<Body>, status: StatusCode) -> String {
    let before = world.faulty.calls(Op::Acquire);
    let json = problem(ask(app, request).await, status).await;
    assert_eq!(world.faulty.calls(Op::Acquire), before, "a lock was acquired");
    json["detail"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn templates_are_filled_under_every_layer_of_a_router() {
    let world = World::new();
    let route = || Router::new().route("/skus/{sku}", any(which));
    let apps = [
        route().route_layer(stock(&world)),
        route().layer(stock(&world)),
        Router::new().route("/skus/{sku}", any(which).layer(stock(&world))),
        Router::new()
            .route("/skus/{sku}", any(which))
            .route_layer(ServiceBuilder::new().layer(stock(&world))),
    ];
    for app in apps {
        assert_eq!(text(ask(&app, get("/skus/42")).await).await, "stock:42");
        assert_eq!(text(ask(&app, get("/skus/a%2Fb%3Ac")).await).await, "stock:a%2Fb%3Ac");
    }
}

#[tokio::test(start_paused = true)]
async fn nested_routers_provide_both_parameters() {
    let world = World::new();
    let key = || world.layer().key("stock:{house}:{sku}");
    let inner = || Router::new().route("/skus/{sku}", any(which));
    let apps = [
        Router::new().nest("/houses/{house}", inner().route_layer(key())),
        Router::new().nest("/houses/{house}", inner()).layer(key()),
        Router::new().nest("/houses/{house}", inner().layer(key())),
    ];
    for app in apps {
        assert_eq!(text(ask(&app, get("/houses/a:b/skus/c")).await).await, "stock:a%3Ab:c");
        assert_eq!(text(ask(&app, get("/houses/a/skus/b:c")).await).await, "stock:a:b%3Ac");
    }
}

#[tokio::test(start_paused = true)]
async fn layer_outside_the_router_never_runs_the_handler() {
    let world = World::new();
    let router = Router::new().route("/skus/{sku}", any(which));
    // In a fallback, no route was matched yet.
    let wrapped = ServiceBuilder::new().layer(stock(&world)).service(router.clone());
    let app = Router::new().fallback_service(wrapped);
    let said = assert_rejected(&world, &app, get("/skus/42"), StatusCode::NOT_FOUND).await;
    assert_eq!(said, "nothing is at this path");
    let answer = stock(&world).layer(router.into_service::<Body>()).oneshot(get("/skus/42")).await.unwrap();
    assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(world.faulty.calls(Op::Acquire), 0);
}

#[tokio::test(start_paused = true)]
async fn missing_and_ambiguous_parameters_are_500() {
    let world = World::new();
    let apps = [
        (Router::new().route("/report", any(which)).route_layer(stock(&world)), "/report"),
        (Router::new().route("/skus/{id}", any(which)).route_layer(stock(&world)), "/skus/42"),
        // The parameter is ambiguous.
        (
            Router::new().nest("/{sku}", Router::new().route("/{sku}", any(which))).layer(stock(&world)),
            "/a/b",
        ),
    ];
    for (app, path) in apps {
        assert_rejected(&world, &app, post(path), StatusCode::INTERNAL_SERVER_ERROR).await;
    }
    let app = Router::new().route("/skus/{sku}", any(which)).route_layer(stock(&world));
    assert_eq!(
        ask(&app, get("/nowhere")).await.status(),
        StatusCode::NOT_FOUND,
        "the layer does not respond"
    );
    let said = assert_rejected(&world, &app, get("/skus/%FF"), StatusCode::BAD_REQUEST).await;
    assert_eq!(said, "a path parameter is not UTF-8");
}

#[tokio::test(start_paused = true)]
async fn wrong_template_is_logged_once_per_route() {
    let (world, log) = (World::new(), ThreadLog::listen(LevelFilter::INFO));
    let app = Router::new()
        .route("/houses/{house}/skus/{id}", on_post(which))
        .route("/health", on_get(which))
        .route_layer(stock(&world));
    let routes = [
        (post("/houses/secret/skus/4711"), "/houses/{house}/skus/{id}", "it has `house`, `id`"),
        (get("/health"), "/health", "it has none"),
    ];
    for (request, route, parameters) in routes {
        let again =
            Request::builder().method(request.method()).uri(request.uri()).body(Body::empty()).unwrap();
        assert_rejected(&world, &app, request, StatusCode::INTERNAL_SERVER_ERROR).await;
        let said = log.text();
        log.clear();
        assert_eq!(said.matches("ERROR").count(), 1, "{said}");
        let expected = format!("the route has no path parameter `sku`: {parameters}");
        assert!(said.contains(route) && said.contains(&expected), "{said}");
        assert!(!said.contains("secret") && !said.contains("4711"), "{said}");
        assert_rejected(&world, &app, again, StatusCode::INTERNAL_SERVER_ERROR).await;
        assert_eq!(log.text(), "", "logged only once");
    }
    // Another template on the same route fails separately.
    let other = Router::new().route("/health", on_get(which)).route_layer(stock(&world));
    assert_rejected(&world, &other, get("/health"), StatusCode::INTERNAL_SERVER_ERROR).await;
    assert!(log.text().contains("ERROR"));
}

#[tokio::test(start_paused = true)]
async fn catch_all_is_one_value() {
    let world = World::new();
    let app = Router::new().route("/files/{*path}", any(which)).route_layer(world.layer().key("file:{path}"));
    assert_eq!(text(ask(&app, get("/files/a/b.txt")).await).await, "file:a%2Fb.txt");
}

#[tokio::test(start_paused = true)]
async fn composite_keys_require_every_part() {
    let world = World::new();
    let key = KeyTemplate::of("transfer").header("x-tenant").path("from").query("to").part(|request| {
        let host = request.headers.get("host").ok_or(KeyError::bad_request("the host is missing"))?;
        host.to_str().map(str::to_owned).map_err(|_| KeyError::bad_request("the host is not text"))
    });
    let app = Router::new().route("/accounts/{from}", any(which)).route_layer(world.layer().key(key));
    let request = |uri: &str, headers: &[(&'static str, &str)]| {
        let builder = Request::post(uri);
        let builder = headers.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value));
        builder.body(Body::empty()).unwrap()
    };
    let both = [("x-tenant", "t:1"), ("host", "bank")];
    assert_eq!(text(ask(&app, request("/accounts/a?to=b", &both)).await).await, "transfer:t%3A1:a:b:bank");
    let bad = [
        (request("/accounts/a?to=b", &both[1..]), "the header `x-tenant` is missing"),
        (request("/accounts/a", &both), "the query parameter `to` is missing"),
        (request("/accounts/a?to=", &both), "the query parameter `to` is empty"),
        (request("/accounts/a?to=b", &both[..1]), "the host is missing"),
    ];
    for (request, says) in bad {
        assert_eq!(assert_rejected(&world, &app, request, StatusCode::BAD_REQUEST).await, says);
    }
}

#[tokio::test(start_paused = true)]
async fn sync_and_async_functions_name_the_lock() {
    let world = World::new();
    let by_path = KeyTemplate::from_fn(|request| match request.uri.path() {
        "/wired" => Err(KeyError::misconfigured("the login layer is missing")),
        path => Ok(format!("path:{path}")),
    });
    let later = KeyTemplate::from_async_fn(|request| {
        let path = request.uri.path().to_owned();
        async move {
            tokio::task::yield_now().await;
            match path.as_str() {
                "/down" => Err(KeyError::unavailable("the account service did not respond")),
                "/hang" => std::future::pending().await,
                "/empty" => Ok(String::new()),
                path => Ok(format!("path:{path}")),
            }
        }
    });
    let app = |key: KeyTemplate| Router::new().fallback(any(which)).layer(world.layer().key(key));
    assert_eq!(text(ask(&app(by_path.clone()), get("/a")).await).await, "path:/a");
    assert_rejected(&world, &app(by_path), get("/wired"), StatusCode::INTERNAL_SERVER_ERROR).await;
    assert_eq!(text(ask(&app(later.clone()), get("/a")).await).await, "path:/a");
    assert_rejected(&world, &app(later.clone()), get("/down"), StatusCode::SERVICE_UNAVAILABLE).await;
    assert_rejected(&world, &app(later.clone()), get("/hang"), StatusCode::SERVICE_UNAVAILABLE).await;
    assert_rejected(&world, &app(later), get("/empty"), StatusCode::BAD_REQUEST).await;
}

#[tokio::test(start_paused = true)]
async fn allow_covers_missing_but_not_misconfigured_keys() {
    async fn with_or_without(lock: Option<LockHandle>) -> String {
        lock.map_or("none".to_owned(), |lock| lock.name().to_string())
    }
    let world = World::new();
    let layer =
        world.layer().key(KeyTemplate::of("t").header("x-tenant")).on_bad_key(WithoutLock::PassThrough);
    let app = Router::new().route("/", any(with_or_without)).route_layer(layer);
    assert_eq!(text(ask(&app, get("/")).await).await, "none");
    let layer = stock(&world).on_bad_key(WithoutLock::PassThrough);
    let app = Router::new().route("/", any(with_or_without)).route_layer(layer);
    assert_rejected(&world, &app, get("/"), StatusCode::INTERNAL_SERVER_ERROR).await;
}

/// A handler could still read a repeated or long value, so the key is not missing.
#[tokio::test(start_paused = true)]
async fn allow_does_not_cover_malformed_keys() {
    let world = World::new();
    let layer = world.layer().key(KeyTemplate::of("t").query("account")).on_bad_key(WithoutLock::PassThrough);
    let app = Router::new().route("/", any(async || "without the lock")).route_layer(layer);
    assert_eq!(text(ask(&app, get("/")).await).await, "without the lock");
    for query in ["account=7&account=8", "account=7&accoun%74=8", "account=", &format!("account={:600}", 7)] {
        let uri = format!("/?{}", query.replace(' ', "0"));
        assert_rejected(&world, &app, get(&uri), StatusCode::BAD_REQUEST).await;
    }
}

#[test]
#[should_panic(expected = "the key contains an unmatched brace at byte 6")]
fn invalid_template_fails_when_the_layer_is_built() {
    let _ = World::new().layer().key("stock:{sku");
}

#[test]
fn try_key_returns_the_error() {
    let layer = World::new().layer();
    assert!(layer.clone().try_key("stock:{sku").unwrap_err().to_string().contains("use `{name}`"));
    assert!(layer.clone().try_key(String::from("stock:{sku}")).is_ok());
    assert!(layer.try_key(LockName::new("stock:{eu}").unwrap()).is_ok(), "a name is used as is");
}

/// `0` and `-0` are one value for the handler, but would be two locks.
#[test]
fn floating_point_numbers_are_refused() {
    let of = || KeyTemplate::of("at");
    let keys = [
        of().path_as::<f64>("x"),
        of().query_as::<f32>("x"),
        of().header_as::<f64>("x"),
        KeyTemplate::template("at:{x}").typed::<f64>("x"),
    ];
    for key in keys {
        let error = World::new().layer().try_key(key).map(drop).unwrap_err();
        assert!(error.to_string().contains("use an integer"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn methods_and_filters_pass_without_a_lock() {
    let world = World::new();
    let layer = stock(&world)
        .methods([http::Method::POST])
        .filter(|request| !request.headers.contains_key("x-dry-run"));
    let app = Router::new()
        .route("/skus/{sku}", any(|lock: Option<LockHandle>| async move { lock.is_some().to_string() }))
        .route_layer(layer);
    assert_eq!(text(ask(&app, post("/skus/42")).await).await, "true");
    assert_eq!(text(ask(&app, get("/skus/42")).await).await, "false");
    let mut dry = post("/skus/42");
    dry.headers_mut().insert("x-dry-run", "1".parse().unwrap());
    assert_eq!(text(ask(&app, dry).await).await, "false");
    assert_eq!(world.faulty.calls(Op::Acquire), 1);
    let mut service = app.into_service::<Body>();
    assert_eq!(service.ready().await.unwrap().call(get("/skus/1")).await.unwrap().status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn filter_for_get_covers_head() {
    let world = World::new();
    let locked = async |lock: Option<LockHandle>| match lock {
        Some(_) => StatusCode::OK,
        None => StatusCode::IM_A_TEAPOT,
    };
    let layer = world.layer().key("report").methods([http::Method::GET]);
    let app = Router::new().route("/", axum::routing::get(locked).post(locked)).route_layer(layer);
    let head = Request::head("/").body(Body::empty()).unwrap();
    assert_eq!(ask(&app, head).await.status(), StatusCode::OK);
    assert_eq!(ask(&app, post("/")).await.status(), StatusCode::IM_A_TEAPOT);
}

/// The handler parses these different spellings as the same value.
#[tokio::test(start_paused = true)]
async fn typed_parts_ignore_the_spelling() {
    async fn by_id(lock: LockHandle, Path(id): Path<u64>) -> String {
        format!("{id}: {}", lock.name())
    }
    let world = World::new();
    let keys = [
        KeyTemplate::of("account").path_as::<u64>("id"),
        KeyTemplate::template("account:{id}").typed::<u64>("id"),
    ];
    for key in keys {
        let app = Router::new().route("/accounts/{id}", on_post(by_id).route_layer(world.layer().key(key)));
        for spelling in ["7", "07", "+7", "%37"] {
            let answer = ask(&app, post(&format!("/accounts/{spelling}"))).await;
            assert_eq!(text(answer).await, "7: account:7", "{spelling}");
        }
        for wrong in ["-7", "seven", "7.0"] {
            let said =
                assert_rejected(&world, &app, post(&format!("/accounts/{wrong}")), StatusCode::BAD_REQUEST)
                    .await;
            assert_eq!(said, "the path parameter `id` is malformed");
        }
    }
}
