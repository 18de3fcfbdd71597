//! Tests of the routes: request validation, and the effects of repeated and abandoned requests.

use crate::support::{Client, Shelf, catalogue, config, lone_shop, order_request, shop, short_lease};
use axum::{
    body::Body,
    http::{Request, StatusCode},
};
use lock_core::LockFactory;
use lock_inventory_demo::{
    fault::{Faults, Gate},
    http::{Admin, router},
    locks::Locks,
    shop::ShopConfig,
    strategy::Strategy,
};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;

/// The strategies that work on SQLite and without Redis.
const EMBEDDED: [Strategy; 7] = [
    Strategy::None,
    Strategy::Mutex,
    Strategy::Lock,
    Strategy::LockWriteFence,
    Strategy::Fenced,
    Strategy::Conditional,
    Strategy::ForUpdate,
];

#[tokio::test]
async fn repeated_key_returns_the_same_receipt_for_the_same_payload() {
    for strategy in EMBEDDED {
        let shelf = Shelf::sqlite(&catalogue(2, 10)).await;
        let shop = lone_shop(&shelf, strategy).await;
        let client = Client::of(&shop);
        let first = client.order("key", 2).await;
        assert_eq!(first.status, StatusCode::CREATED, "{strategy}: {first:?}");
        let json = first.json();
        assert_eq!(
            (&json["order"], &json["sku"], &json["quantity"]),
            (&json!("key"), &json!("P-0"), &json!(2))
        );
        assert_eq!(json["token"].is_u64(), strategy.needs_lock());

        let again = client.order("key", 2).await;
        assert_eq!((again.status, again.json()), (StatusCode::OK, json));
        for other in [client.order("key", 1).await, client.send(order_request("P-1", "key", 2)).await] {
            assert_eq!(
                (other.status, other.reason()),
                (StatusCode::UNPROCESSABLE_ENTITY, "key-reused".into())
            );
        }
        assert_eq!((shelf.stock().await, shelf.keys().await), (8, vec!["key".to_owned()]), "{strategy}");
        assert_eq!(shop.seller().payments().taken(), 500, "{strategy}");
    }
}

#[tokio::test]
async fn concurrent_requests_with_one_key_deduct_once() {
    for strategy in EMBEDDED {
        let shelf = Shelf::sqlite(&catalogue(1, 10)).await;
        let shop = lone_shop(&shelf, strategy).await;
        let client = Arc::new(Client::of(&shop));
        let asked = (0..8).map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.order("key", 1).await })
        });
        let mut created = 0;
        for reply in asked.collect::<Vec<_>>() {
            let reply = reply.await.unwrap();
            match reply.status {
                StatusCode::CREATED => created += 1,
                StatusCode::OK => {}
                _ => assert_eq!(reply.reason(), "in-progress", "{strategy}"),
            }
        }
        assert_eq!((created, shelf.stock().await, shelf.keys().await.len()), (1, 9, 1), "{strategy}");
        assert_eq!(shop.seller().payments().taken(), 250, "{strategy}: the other payments must be refunded");
    }
}

#[tokio::test]
async fn sold_out_order_is_refused_and_not_charged() {
    for strategy in EMBEDDED {
        let shelf = Shelf::sqlite(&catalogue(1, 1)).await;
        let shop = lone_shop(&shelf, strategy).await;
        let client = Client::of(&shop);
        assert_eq!(client.order("a", 1).await.status, StatusCode::CREATED);
        let refused = client.order("b", 1).await;
        assert_eq!((refused.status, refused.reason()), (StatusCode::CONFLICT, "sold-out".into()));
        assert_eq!(shop.seller().payments().taken(), 250, "{strategy}");
    }
}

#[tokio::test]
async fn declined_payment_sells_nothing() {
    for strategy in EMBEDDED {
        let shelf = Shelf::sqlite(&catalogue(1, 5_000)).await;
        shelf.corrupt("update sku set price_cents = 1000000").await;
        let shop = lone_shop(&shelf, strategy).await;
        let refused = Client::of(&shop).order("a", 2).await;
        assert_eq!(
            (refused.status, refused.reason()),
            (StatusCode::PAYMENT_REQUIRED, "payment-declined".into())
        );
        assert_eq!((shelf.stock().await, shelf.keys().await.len()), (5_000, 0), "{strategy}");
    }
}

#[tokio::test]
async fn invalid_input_is_refused_early() {
    let shelf = Shelf::sqlite(&catalogue(1, 10)).await;
    let shop = lone_shop(&shelf, Strategy::Fenced).await;
    let client = Client::of(&shop);
    let body = |text: &str| order_body("key", text.to_owned());
    let cases = [
        (order_request("P-9", "key", 1), 404, "unknown-sku"),
        (order_request("a%20b", "key", 1), 404, "unknown-sku"),
        (order_request("P-0", "", 1), 400, "idempotency-key"),
        (order_request("P-0", "a b", 1), 400, "idempotency-key"),
        (order_request("P-0", &"x".repeat(256), 1), 400, "idempotency-key"),
        (Request::post("/skus/P-0/orders").body(Body::empty()).unwrap(), 400, "idempotency-key"),
        (order_request("P-0", "key", 0), 400, "quantity"),
        (order_request("P-0", "key", 101), 400, "quantity"),
        (body(r#"{"quantity":-1}"#), 422, "bad-body"),
        (body(r#"{"quantity":1,"price":1}"#), 422, "bad-body"),
        (body("{"), 400, "bad-body"),
        (Request::get("/nothing").body(Body::empty()).unwrap(), 404, "not-found"),
        (Request::delete("/skus/P-0/orders").body(Body::empty()).unwrap(), 405, "method-not-allowed"),
    ];
    for (request, status, reason) in cases {
        let asked = format!("{request:?}");
        let reply = client.send(request).await;
        assert_eq!((reply.status.as_u16(), &*reply.reason()), (status, reason), "{asked}");
        assert!(reply.headers["x-shop"].to_str().unwrap().starts_with("shop-1/"), "{reply:?}");
    }
    let plain = Request::post("/skus/P-0/orders").header("idempotency-key", "key");
    let reply = client.send(plain.body(Body::from(r#"{"quantity":1}"#)).unwrap()).await;
    assert_eq!(reply.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let large = client.send(order_body("key", " ".repeat(20_000))).await;
    assert_eq!(
        large.status,
        StatusCode::PAYLOAD_TOO_LARGE,
        "the layer that reads the body must reject it before the lock"
    );
    assert_eq!(shelf.keys().await.len(), 0);
}

fn order_body(key: &str, body: String) -> Request<Body> {
    let request = Request::post("/skus/P-0/orders").header("idempotency-key", key);
    request.header("content-type", "application/json").body(Body::from(body)).unwrap()
}

#[tokio::test]
async fn only_strategies_with_a_lock_wait_for_it() {
    let shelf = Shelf::sqlite(&catalogue(1, 10)).await;
    let locks = Locks::in_memory();
    let quick =
        ShopConfig { wait: Duration::from_millis(50), prefix: "p".into(), ..config(Strategy::Fenced) };
    let shop = shop(&shelf, &locks, quick, Faults::default()).await;
    let client = Client::of(&shop);
    let held = LockFactory::new(locks.store()).named("p:stock:P-0").unwrap().acquire().await.unwrap();

    let refused = client.order("a", 1).await;
    assert_eq!((refused.status, refused.reason()), (StatusCode::SERVICE_UNAVAILABLE, "timeout".into()));
    assert!(refused.headers.contains_key("retry-after"));
    assert_eq!(client.get("/skus/P-0/orders").await.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(client.get("/skus/P-0").await.json()["stock"], 10);
    assert_eq!(
        client.post("/admin/strategy", json!({"strategy": "conditional"})).await.status,
        StatusCode::OK
    );
    assert_eq!(client.order("a", 1).await.status, StatusCode::CREATED);
    held.release().await.unwrap();
    assert_eq!((shop.counts().lock_timeouts, shop.counts().orders), (1, 1));
}

/// Holds a shop's section of `P-0` at the gate until its lock is lost, and sells at another shop in the meantime.
async fn stale_section(strategy: Strategy) -> (Shelf, crate::support::Reply, u64) {
    let shelf = Shelf::sqlite(&catalogue(1, 10)).await;
    let (locks, gate) = (Locks::in_memory(), Arc::new(Gate::default()));
    let paused = ShopConfig { options: short_lease(), ..config(strategy) };
    let paused = shop(&shelf, &locks, paused, Faults::gate(gate.clone())).await;
    let healthy = shop(&shelf, &locks, config(strategy), Faults::default()).await;
    let client = Client::of(&paused);
    let late = tokio::spawn(async move { client.order("late", 1).await });
    gate.arrived(1).await;
    let current = Client::of(&healthy).order("current", 1).await;
    assert_eq!(current.status, StatusCode::CREATED, "another shop must acquire the lock: {current:?}");
    gate.open();
    let late = late.await.unwrap();
    let taken = paused.seller().payments().taken();
    paused.drain(Duration::from_secs(10)).await.unwrap();
    healthy.drain(Duration::from_secs(10)).await.unwrap();
    (shelf, late, taken)
}

#[tokio::test]
async fn stale_holder_is_refused_with_the_fence() {
    let (shelf, late, taken) = stale_section(Strategy::Fenced).await;
    assert_eq!((late.status, late.reason()), (StatusCode::SERVICE_UNAVAILABLE, "stale-holder".into()));
    let json = late.json();
    assert!(json["token"].as_u64().unwrap() < json["newer"].as_u64().unwrap(), "{json}");
    assert!(late.headers.contains_key("retry-after"));
    assert_eq!((shelf.keys().await, shelf.stock().await), (vec!["current".to_owned()], 9));
    assert_eq!(taken, 0, "the refused order's payment must be refunded");
}

#[tokio::test]
async fn stale_holder_oversells_without_the_fence() {
    let (shelf, late, _) = stale_section(Strategy::Lock).await;
    assert_eq!(late.status, StatusCode::CREATED, "{late:?}");
    assert_eq!(
        (shelf.keys().await.len(), shelf.stock().await),
        (2, 9),
        "expected two orders and one unit less"
    );
}

#[tokio::test]
async fn disconnected_client_does_not_stop_an_order() {
    for strategy in [Strategy::None, Strategy::Fenced, Strategy::Conditional] {
        let shelf = Shelf::sqlite(&catalogue(1, 10)).await;
        let gate = Arc::new(Gate::default());
        let shop = shop(&shelf, &Locks::in_memory(), config(strategy), Faults::gate(gate.clone())).await;
        let client = Client::of(&shop);
        let asked = tokio::spawn(async move { client.order("left", 1).await });
        gate.arrived(1).await;
        asked.abort();
        assert!(asked.await.unwrap_err().is_cancelled());
        gate.open();
        shop.drain(Duration::from_secs(10)).await.unwrap();
        assert_eq!(shelf.keys().await, ["left"], "{strategy}");
    }
}

#[tokio::test]
async fn reservation_becomes_an_order_once() {
    let shelf = Shelf::sqlite(&catalogue(1, 10)).await;
    let shop = lone_shop(&shelf, Strategy::Fenced).await;
    let client = Client::of(&shop);
    let made = client.post("/skus/P-0/reservations", json!({"quantity": 3, "seconds": 60})).await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    let id = made.json()["id"].as_str().unwrap().to_owned();
    assert!(made.json()["expires_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!((shelf.stock().await, shelf.keys().await.len()), (7, 0));

    let confirm = format!("/reservations/{id}/confirm");
    assert_eq!(client.post(&confirm, json!({})).await.status, StatusCode::CREATED);
    assert_eq!(
        client.post(&confirm, json!({})).await.status,
        StatusCode::OK,
        "a repeated request must find the order"
    );
    assert_eq!((shelf.stock().await, shelf.keys().await), (7, vec![id.clone()]));
    assert_eq!(shop.seller().payments().taken(), 750);
    let cancel = Request::delete(format!("/reservations/{id}")).body(Body::empty()).unwrap();
    assert_eq!(client.send(cancel).await.reason(), "reservation-closed");
}

#[tokio::test]
async fn cancelled_reservation_returns_its_units_once() {
    let shelf = Shelf::sqlite(&catalogue(1, 10)).await;
    let client = Client::of(&lone_shop(&shelf, Strategy::Fenced).await);
    let made = client.post("/skus/P-0/reservations", json!({"quantity": 3, "seconds": 60})).await;
    let id = made.json()["id"].as_str().unwrap().to_owned();
    for _ in 0..2 {
        let cancel = Request::delete(format!("/reservations/{id}")).body(Body::empty()).unwrap();
        assert_eq!(client.send(cancel).await.status, StatusCode::NO_CONTENT);
        assert_eq!(shelf.stock().await, 10);
    }
    let late = client.post(&format!("/reservations/{id}/confirm"), json!({})).await;
    assert_eq!((late.status, late.reason()), (StatusCode::CONFLICT, "reservation-closed".into()));
    for (body, reason) in [
        (json!({"quantity": 11, "seconds": 60}), "sold-out"),
        (json!({"quantity": 1, "seconds": 0}), "seconds"),
        (json!({"quantity": 1, "seconds": 3601}), "seconds"),
        (json!({"quantity": 0, "seconds": 60}), "quantity"),
    ] {
        assert_eq!(client.post("/skus/P-0/reservations", body).await.reason(), reason);
    }
}

#[tokio::test]
async fn reservations_of_orders_are_hidden_from_the_route() {
    let shelf = Shelf::sqlite(&catalogue(1, 10)).await;
    let client = Client::of(&lone_shop(&shelf, Strategy::Conditional).await);
    assert_eq!(client.order("key", 1).await.status, StatusCode::CREATED);
    let confirm = client.post("/reservations/order:key/confirm", json!({})).await;
    assert_eq!((confirm.status, confirm.reason()), (StatusCode::NOT_FOUND, "unknown-reservation".into()));
}

#[tokio::test]
async fn admin_routes_exist_only_if_enabled() {
    let shelf = Shelf::sqlite(&catalogue(1, 10)).await;
    let shop = lone_shop(&shelf, Strategy::Fenced).await;
    let closed = Client(router(shop.clone(), Admin::Closed));
    let change = json!({"strategy": "none"});
    assert_eq!(closed.post("/admin/strategy", change.clone()).await.status, StatusCode::NOT_FOUND);
    let open = Client::of(&shop);
    assert_eq!(open.post("/admin/strategy", change).await.json(), json!({"strategy": "none"}));
    assert_eq!(shop.strategy(), Strategy::None);
    for (strategy, reason) in
        [("units", "own-stock"), ("redis-lua", "own-stock"), ("setnx", "strategy-unavailable")]
    {
        assert_eq!(open.post("/admin/strategy", json!({ "strategy": strategy })).await.reason(), reason);
    }
    assert_eq!(open.post("/admin/fault", json!({"kind": "flood"})).await.reason(), "bad-body");
    let stall = json!({"kind": "stall", "millis": 1, "once": true});
    assert_eq!(open.post("/admin/fault", stall).await.status, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn state_shows_stock_holder_and_counters() {
    let shelf = Shelf::sqlite(&catalogue(2, 10)).await;
    let gate = Arc::new(Gate::default());
    let shop = shop(&shelf, &Locks::in_memory(), config(Strategy::Fenced), Faults::gate(gate.clone())).await;
    let client = Arc::new(Client::of(&shop));
    let asked: Vec<_> = ["a", "b"]
        .map(|key| {
            let client = client.clone();
            tokio::spawn(async move { client.order(key, 1).await })
        })
        .into();
    gate.arrived(1).await;
    let mut state = client.get("/state").await.json();
    while state["stock"][0]["waiters"] != 1 {
        sleep(Duration::from_millis(10)).await;
        state = client.get("/state").await.json();
    }
    let (hot, cold) = (&state["stock"][0], &state["stock"][1]);
    assert_eq!((&hot["sku"], &hot["holder"], &hot["waiters"]), (&json!("P-0"), &json!("shop-1"), &json!(1)));
    assert!(hot["token"].is_u64() && cold["holder"].is_null() && cold["token"].is_null(), "{state}");
    assert_eq!(
        (&hot["initial"], &hot["oversold"], &state["strategy"]),
        (&json!(10), &json!(0), &json!("fenced"))
    );
    gate.open();
    for reply in asked {
        assert_eq!(reply.await.unwrap().status, StatusCode::CREATED);
    }
    while state["stock"][0]["sold"] != 2 {
        sleep(Duration::from_millis(10)).await;
        state = client.get("/state").await.json();
    }
    assert_eq!(state["stock"][0]["stock"], json!(8));
    assert_eq!(
        (&state["counters"]["orders"], &state["jobs"], &state["leader"]),
        (&json!(2), &json!([]), &json!(false))
    );
}

#[tokio::test]
async fn metrics_contain_locks_and_orders() {
    let shelf = Shelf::sqlite(&catalogue(1, 10)).await;
    let client = Client::of(&lone_shop(&shelf, Strategy::Fenced).await);
    client.order("a", 1).await;
    let metrics = client.get("/metrics").await.text;
    for line in [
        r#"shop_orders_total{outcome="accepted",otel_scope_name="shop"} 1"#,
        "lock_acquire_duration_seconds_count",
        r#"http_route="/skus/{sku}/orders""#,
    ] {
        assert!(metrics.contains(line), "`{line}` is missing in {metrics}");
    }
    assert!(!metrics.contains("P-0"), "lock names must not be labels, because their number is unbounded");
}

#[tokio::test]
async fn shop_without_database_is_live_but_not_ready() {
    let shelf = Shelf::sqlite(&catalogue(1, 10)).await;
    let client = Client::of(&lone_shop(&shelf, Strategy::Fenced).await);
    let ready = client.get("/health/ready").await;
    assert_eq!(ready.status, StatusCode::OK);
    assert_eq!(ready.json(), json!({"database": "ready", "locks": "ready", "scheduler": "off"}));
    shelf.store.close().await;
    let ready = client.get("/health/ready").await;
    assert_eq!(
        (ready.status, &ready.json()["database"]),
        (StatusCode::SERVICE_UNAVAILABLE, &json!("unavailable"))
    );
    assert_eq!(client.get("/health/live").await.status, StatusCode::NO_CONTENT);
    let refused = client.order("a", 1).await;
    assert_eq!((refused.status, refused.reason()), (StatusCode::SERVICE_UNAVAILABLE, "database".into()));
}
