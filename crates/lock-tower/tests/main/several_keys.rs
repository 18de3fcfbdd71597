//! Routes with several keys, whose locks are acquired in one order.

use crate::support::{Gauge, Recorder, World, ask, get, millis, post, problem, secs, text};
use axum::{Router, body::Body, extract::Path, routing::post as on_post};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use lock_core::{LockFactory, LockName, MemoryBackend, ReleaseOutcome};
use lock_testkit::{Op, Phase, ThreadLog};
use lock_tower::{
    DetachedTasks, InvalidKey, KeyError, KeyTemplate, LockHandle, LockLayer, LockLost, LockSetHandle,
    LockStatus,
};
use tokio::task::JoinSet;
use tracing::level_filters::LevelFilter;

const KEYS: [&str; 2] = ["account:{from}", "account:{to}"];

fn accounts(world: &World) -> LockLayer<KeyTemplate> {
    world.layer().keys(KEYS).wait(secs(1))
}

fn transfers<H, T>(handler: H, layer: LockLayer<KeyTemplate>) -> Router
where
    H: axum::handler::Handler<T, ()>,
    T: 'static,
{
    Router::new().route("/transfer/{from}/{to}", on_post(handler).route_layer(layer))
}

async fn names(locks: LockSetHandle) -> String {
    locks.names().map(LockName::as_str).collect::<Vec<_>>().join(" ")
}

#[tokio::test(start_paused = true)]
async fn transfers_in_both_directions_are_all_served() {
    let (world, gauge) = (World::new(), Gauge::default());
    let inside = gauge.clone();
    let transfer = move |locks: LockSetHandle| async move {
        let _inside = inside.enter();
        tokio::time::sleep(millis(5)).await;
        assert!(locks.is_held());
    };
    let app = transfers(transfer, accounts(&world).wait(secs(10)));
    let mut requests = JoinSet::new();
    for path in ["/transfer/1/2", "/transfer/2/1"].into_iter().cycle().take(200) {
        let app = app.clone();
        requests.spawn(async move { ask(&app, post(path)).await.status() });
    }
    let statuses = requests.join_all().await;
    assert_eq!(statuses, [StatusCode::OK; 200]);
    assert_eq!(gauge.most(), 1);
    tokio::time::sleep(secs(3)).await;
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn handler_has_a_token_for_each_name() {
    let world = World::new();
    let transfer = |Path((from, to)): Path<(u64, u64)>, locks: LockSetHandle| async move {
        let token = |account: u64| locks.fencing_token(LockName::of(("account", account)).unwrap()).unwrap();
        assert!(locks.fencing_token("account:3").is_none());
        assert_eq!(locks.hold().holds().len(), if from == to { 1 } else { 2 });
        format!("{} {}", token(from), token(to))
    };
    let app = transfers(transfer, accounts(&world));
    let tokens = async |path: &str| -> Vec<u64> {
        let said = text(ask(&app, post(path)).await).await;
        said.split(' ').map(|token| token.parse().unwrap()).collect()
    };
    let (there, back) = (tokens("/transfer/1/2").await, tokens("/transfer/2/1").await);
    assert!(there[0] < back[1] && there[1] < back[0], "{there:?} {back:?}");
    let same = tokens("/transfer/1/1").await;
    assert_eq!(same[0], same[1], "equal names share one lock");
    world.settle().await;
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn different_kinds_of_keys_can_be_combined() {
    let world = World::new();
    let later = KeyTemplate::from_async_fn(|_| async {
        tokio::time::sleep(millis(10)).await;
        Ok("later".to_owned())
    });
    let inner = KeyTemplate::all(["report", "a"]).unwrap();
    let keys = [KeyTemplate::try_from("sku:{from}").unwrap(), later, inner];
    let app = transfers(names, world.layer().keys(keys));
    assert_eq!(text(ask(&app, post("/transfer/x/y")).await).await, "a later report sku:x");
    let at_once = transfers(names, accounts(&world));
    assert_eq!(text(ask(&at_once, post("/transfer/b/a")).await).await, "account:a account:b");
}

#[tokio::test(start_paused = true)]
async fn request_with_a_missing_key_takes_no_lock() {
    let world = World::new();
    let keys = [
        KeyTemplate::try_from("account:{from}").unwrap(),
        KeyTemplate::of("x").query("q").try_into().unwrap(),
    ];
    let app = transfers(names, world.layer().keys(keys));
    let json = problem(ask(&app, post("/transfer/1/2")).await, StatusCode::BAD_REQUEST).await;
    assert_eq!(json["detail"], "the query parameter `q` is missing");
    let failing = KeyTemplate::from_async_fn(|_| async { Err(KeyError::unavailable("no lookup")) });
    let fixed = KeyTemplate::from(LockName::from_static("report"));
    let app = transfers(names, world.layer().keys([fixed, failing]));
    problem(ask(&app, post("/transfer/1/2")).await, StatusCode::SERVICE_UNAVAILABLE).await;
    assert_eq!(world.faulty.calls(Op::Acquire), 0);
}

#[test]
fn invalid_keys_fail_when_the_layer_is_built() {
    let layer = || LockLayer::new(LockFactory::new(MemoryBackend::new()));
    let none: [&str; 0] = [];
    assert_eq!(layer().try_keys(none).map(drop).unwrap_err(), InvalidKey::NoKeys);
    let many = (0..65).map(|number| format!("n{number}"));
    assert_eq!(layer().try_keys(many).map(drop).unwrap_err(), InvalidKey::TooManyKeys { keys: 65, most: 64 });
    assert!(matches!(layer().try_keys(["a", "b{"]).map(drop), Err(InvalidKey::UnmatchedBrace { .. })));
    let debug = format!("{:?}", KeyTemplate::all(["a:{x}", "b"]).unwrap());
    assert_eq!(debug, "KeyTemplate([a:{path parameter `x`}, b])");
}

#[tokio::test(start_paused = true)]
async fn wrong_handle_type_is_500() {
    let log = ThreadLog::listen(LevelFilter::ERROR);
    let world = World::new();
    let (one, several) = (|| world.layer().key("one"), || world.layer().keys(["one", "two"]));
    let app = Router::new()
        .route("/several", on_post(|_: LockHandle| async {}).route_layer(several()))
        .route("/several/option", on_post(|_: Option<LockHandle>| async {}).route_layer(several()))
        .route("/one", on_post(|_: LockSetHandle| async {}).route_layer(one()))
        .route("/one/option", on_post(|_: Option<LockSetHandle>| async {}).route_layer(one()));
    for path in ["/several", "/several/option", "/one", "/one/option"] {
        let json = problem(ask(&app, post(path)).await, StatusCode::INTERNAL_SERVER_ERROR).await;
        assert_eq!(json["detail"], "the server is misconfigured");
    }
    assert_eq!(
        log.count("this route has several locks: extract `LockSetHandle` instead"),
        2,
        "{}",
        log.text()
    );
    assert_eq!(log.count("this route has only one lock: extract `LockHandle` instead"), 2, "{}", log.text());
    let status = |status: LockStatus| async move {
        assert!(status.handle().is_none() && status.unlocked().is_none());
        status.set_handle().unwrap().holds().len().to_string()
    };
    assert_eq!(text_of(&transfers(status, accounts(&world))).await, "2");
    let optional = |locks: Option<LockSetHandle>| async move { locks.is_some().to_string() };
    assert_eq!(text_of(&transfers(optional, accounts(&world))).await, "true");
    let unlocked = Router::new().route("/transfer/1/2", on_post(optional));
    assert_eq!(text_of(&unlocked).await, "false");
}

async fn text_of(app: &Router) -> String {
    text(ask(app, post("/transfer/1/2")).await).await
}

#[tokio::test(start_paused = true)]
async fn timeout_and_cancellation_leave_no_lock() {
    let world = World::new();
    let app = transfers(names, accounts(&world).wait(millis(500)));
    let other = world.another_process();
    let held = other.named("account:2").unwrap().acquire().await.unwrap();
    let json = problem(ask(&app, post("/transfer/1/2")).await, StatusCode::SERVICE_UNAVAILABLE).await;
    assert_eq!(json["reason"], "timeout");
    assert_eq!(world.store.held(), [LockName::from_static("account:2")], "released before the response");
    let back = problem(ask(&app, post("/transfer/2/1")).await, StatusCode::SERVICE_UNAVAILABLE).await;
    assert_eq!(json["key_hash"], back["key_hash"], "the rejections concern the same locks");
    let other_key = problem(ask(&app, post("/transfer/2/3")).await, StatusCode::SERVICE_UNAVAILABLE).await;
    assert_ne!(json["key_hash"], other_key["key_hash"]);

    assert!(tokio::time::timeout(millis(100), ask(&app, post("/transfer/1/2"))).await.is_err());
    world.settle().await;
    assert_eq!(
        world.store.held(),
        [LockName::from_static("account:2")],
        "released after the client disconnects"
    );
    held.release().await.unwrap();
    for phase in [Phase::Before, Phase::After] {
        let gate = world.faulty.gate(Op::Acquire, phase);
        let request = tokio::spawn({
            let app = app.clone();
            async move { ask(&app, post("/transfer/1/2")).await }
        });
        gate.reached().await;
        request.abort();
        gate.open();
        tokio::time::sleep(secs(3)).await;
        world.assert_nothing_left();
    }
}

#[tokio::test(start_paused = true)]
async fn lost_lock_ends_the_request() {
    for tasks in [None, Some(DetachedTasks::new())] {
        let (world, recorder, gauge) = (World::new(), Recorder::default(), Gauge::default());
        let inside = gauge.clone();
        let hangs = move |_: LockSetHandle| async move {
            let _inside = inside.enter();
            std::future::pending::<()>().await;
        };
        let layer = accounts(&world).observer(recorder.clone());
        let routes = Router::new();
        let app = match &tasks {
            None => routes.route("/transfer/{from}/{to}", on_post(hangs).route_layer(layer)),
            Some(tasks) => {
                routes.route("/transfer/{from}/{to}", on_post(hangs).route_layer(layer.detach(tasks)))
            }
        };
        let request = tokio::spawn(async move { ask(&app, post("/transfer/1/2")).await });
        world.settle().await;
        assert_eq!(gauge.inside(), 1);
        world.locks.force_release("account:2").await.unwrap();
        let json = problem(request.await.unwrap(), StatusCode::SERVICE_UNAVAILABLE).await;
        assert_eq!(json["reason"], "lost");
        assert!(json.get("retry_after_ms").is_none(), "work may be partially done");
        world.settle().await;
        assert_eq!(gauge.inside(), 0, "the handler was dropped");
        assert!(recorder.take().iter().any(|event| event.ends_with("lost: Gone")));
        tokio::time::sleep(secs(3)).await;
        world.assert_nothing_left();
    }
}

#[tokio::test(start_paused = true)]
async fn body_keeps_all_locks_and_is_cut_when_one_is_lost() {
    let world = World::new();
    let endless = |_: LockSetHandle| async {
        let first = stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"first"))]);
        Body::from_stream(first.chain(stream::pending()))
    };
    let app = transfers(endless, accounts(&world));
    let mut body = ask(&app, post("/transfer/1/2")).await.into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "first");
    assert_eq!(world.store.held().len(), 2);
    world.locks.force_release("account:1").await.unwrap();
    let error = body.frame().await.unwrap().unwrap_err().into_inner();
    assert!(error.downcast_ref::<LockLost>().is_some(), "{error:?}");
    tokio::time::sleep(secs(3)).await;
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn handler_releases_all_early_and_once() {
    let world = World::new();
    let store = world.store.clone();
    let early = move |locks: LockSetHandle| async move {
        let outcomes = |released: Vec<(_, Result<_, _>)>| -> Vec<_> {
            released
                .into_iter()
                .map(|(name, outcome): (LockName, _)| (name.to_string(), outcome.unwrap()))
                .collect()
        };
        let each = |outcome| ["account:1", "account:2"].map(|name| (name.to_owned(), outcome));
        assert_eq!(outcomes(locks.release().await), each(ReleaseOutcome::Released));
        assert!(store.held().is_empty(), "released before the response");
        assert_eq!(outcomes(locks.release().await), each(ReleaseOutcome::AlreadyExpired));
    };
    let app = transfers(early, accounts(&world));
    assert_eq!(ask(&app, post("/transfer/2/1")).await.status(), StatusCode::OK);
    world.settle().await;
    world.assert_released(2);
}

#[tokio::test(start_paused = true)]
async fn detached_handler_keeps_all_locks_without_its_client() {
    let (world, tasks) = (World::new(), DetachedTasks::new());
    let slow = |locks: LockSetHandle| async move {
        tokio::time::sleep(millis(500)).await;
        assert!(locks.is_held());
    };
    let layer = accounts(&world).detach(&tasks);
    let app = Router::new().route("/transfer/{from}/{to}", on_post(slow).route_layer(layer));
    assert!(tokio::time::timeout(millis(100), ask(&app, post("/transfer/1/2"))).await.is_err());
    world.settle().await;
    assert_eq!(world.store.held().len(), 2);
    tasks.drain(secs(5)).await.unwrap();
    world.settle().await;
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn name_too_long_with_its_prefix_is_400() {
    let locks = LockFactory::builder(MemoryBackend::new()).prefix("shop").build().unwrap();
    let layer = LockLayer::new(locks).key(KeyTemplate::of("k").query("q"));
    let app = Router::new().route("/", axum::routing::get(|| async {}).route_layer(layer));
    let with = |length: usize| -> Request<Body> { get(&format!("/?q={}", "x".repeat(length))) };
    assert_eq!(ask(&app, with(505)).await.status(), StatusCode::OK);
    let json = problem(ask(&app, with(506)).await, StatusCode::BAD_REQUEST).await;
    assert_eq!(json["detail"], "the key is too long");
}
