//! Tests of the strategies without faults: each sells, and each answers a repeated request alike. Only faults and other
//! processes tell them apart; see `scenarios`.

use crate::support::{Process, Sale};
use axum::http::StatusCode;
use flash_sale::strategy::Strategy;
use lock_testkit::RedisServer;
use serde_json::json;

/// Sells one of three units, repeats the request, and sells the rest.
async fn sells(sale: &Sale, strategy: Strategy) {
    let redis = RedisServer::start();
    let process = Process::start("shop", sale, &redis, &["--strategy", strategy.name()]);
    let first = process.order("key", 1).await;
    assert_eq!(first.status, StatusCode::CREATED, "{strategy}: {first:?}");
    assert_eq!(first.body["order"], "load/key");
    assert_eq!(first.body["token"].is_i64(), strategy.needs_lock(), "{strategy}: {first:?}");
    assert!(first.headers["x-shop"].to_str().unwrap().starts_with("shop/"), "{first:?}");

    let again = process.order("key", 1).await;
    assert_eq!((again.status, &again.body), (StatusCode::CREATED, &first.body), "{strategy}");
    assert_eq!(again.headers["idempotent-replayed"], "true", "{strategy}");
    let other = process.order("key", 2).await;
    assert_eq!(other.status, StatusCode::UNPROCESSABLE_ENTITY, "{strategy}: {other:?}");

    assert_eq!(process.order("rest", 2).await.status, StatusCode::CREATED, "{strategy}");
    let refused = process.order("late", 1).await;
    assert_eq!((refused.status, refused.reason()), (StatusCode::CONFLICT, "sold-out"), "{strategy}");
    let counters = &process.state().await["counters"];
    assert_eq!(
        (&counters["orders"], &counters["sold_out"]),
        (&json!(2), &json!(1)),
        "{strategy}: {counters}"
    );

    let audit = sale.audit().await;
    assert_eq!(audit.findings().collect::<Vec<_>>(), [""; 0], "{strategy}");
    assert_eq!((audit.rows.sold, audit.rows.charged, audit.rows.pending), (3, 750, 0), "{strategy}");
}

#[tokio::test]
async fn every_strategy_sells_on_sqlite() {
    for strategy in Strategy::ALL.into_iter().filter(|strategy| !strategy.needs_postgres()) {
        sells(&Sale::sqlite(3).await, strategy).await;
    }
}

#[tokio::test]
async fn every_strategy_sells_on_postgres() {
    for strategy in Strategy::ALL {
        sells(&Sale::postgres(3).await, strategy).await;
    }
}

#[tokio::test]
async fn declined_payment_sells_nothing() {
    for strategy in Strategy::ALL.into_iter().filter(|strategy| !strategy.needs_postgres()) {
        let (redis, sale) = (RedisServer::start(), Sale::sqlite(3).await);
        let dear = sqlx::query("update products set price_cents = 10000000");
        dear.execute(sale.store.pool()).await.unwrap();
        let process = Process::start("shop", &sale, &redis, &["--strategy", strategy.name()]);
        let refused = process.order("key", 2).await;
        assert_eq!(
            (refused.status, refused.reason()),
            (StatusCode::PAYMENT_REQUIRED, "declined"),
            "{strategy}"
        );
        let audit = sale.audit().await;
        assert_eq!(audit.findings().collect::<Vec<_>>(), [""; 0], "{strategy}");
        assert_eq!((audit.rows.orders, sale.stock().await), (0, 3), "{strategy}");
    }
}

#[tokio::test]
async fn strategy_is_switched_while_the_server_runs() {
    let (redis, sale) = (RedisServer::start(), Sale::sqlite(3).await);
    let process = Process::start("shop", &sale, &redis, &[]);
    assert!(process.order("fenced", 1).await.body["token"].is_i64());
    let switched = process.control("strategy", json!({"strategy": "none"})).await;
    assert_eq!(switched.status, StatusCode::NO_CONTENT);
    assert!(process.order("none", 1).await.body["token"].is_null());
    assert_eq!(process.state().await["strategy"], "none");
    for strategy in ["units", "redis-lua"] {
        let refused = process.control("strategy", json!({ "strategy": strategy })).await;
        assert_eq!((refused.status, refused.reason()), (StatusCode::CONFLICT, "own-stock"));
    }
    let refused = process.control("fault", json!({"kind": "flood"})).await;
    assert_eq!(refused.reason(), "bad-body");
}
