//! Tests of the load generator with small servers: stalls are visible, and outcomes match the
//! server's responses.

use axum::{Json, Router, extract::State, http::HeaderMap, response::IntoResponse, routing::post};
use flash_sale::load::{self, Aborts, Extent, LoadPlan, OrderMix, Outcome, Profile};
use http::StatusCode;
use serde_json::json;
use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    net::TcpListener,
    sync::Mutex as AsyncMutex,
    time::{Instant, sleep},
};

/// A shop that sells everything, one order at a time, and stalls once.
#[derive(Debug, Default)]
struct Shop {
    counter: AsyncMutex<u32>,
    keys: Mutex<BTreeMap<String, u32>>,
    stall_at: Option<u32>,
    stall: Duration,
}

async fn order(State(shop): State<Arc<Shop>>, headers: HeaderMap) -> impl IntoResponse {
    let key = headers["idempotency-key"].to_str().unwrap().to_owned();
    let mut counter = shop.counter.lock().await;
    *counter += 1;
    if shop.stall_at == Some(*counter) {
        sleep(shop.stall).await;
    }
    *shop.keys.lock().unwrap().entry(key).or_default() += 1;
    sleep(Duration::from_millis(1)).await;
    (StatusCode::CREATED, [("x-shop", "shop-1/7")], Json(json!({ "token": *counter })))
}

async fn serve(shop: Shop) -> (Arc<Shop>, SocketAddr) {
    let shop = Arc::new(shop);
    let router = Router::new().route("/products/{sku}/orders", post(order)).with_state(Arc::clone(&shop));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, router).into_future());
    (shop, address)
}

fn plan(target: SocketAddr, profile: Profile, extent: Extent) -> LoadPlan {
    LoadPlan {
        target,
        profile,
        extent,
        mix: OrderMix { skus: vec!["A-1".into()], max_quantity: 1, keys: "k".into(), seed: 42 },
        timeout: Duration::from_secs(30),
        aborts: None,
        journal: None,
        zero: Instant::now(),
    }
}

#[tokio::test]
async fn stall_delays_all_orders_in_the_open_model_only() {
    let stall = Duration::from_secs(1);
    let shop = || serve(Shop { stall_at: Some(50), stall, ..Shop::default() });
    let slow = |entries: &[load::Entry]| entries.iter().filter(|entry| entry.latency_us > 300_000).count();

    let (_shop, address) = shop().await;
    let open = plan(address, Profile::Open { rate: 100.0 }, Extent::Orders(250));
    let (_, entries) = load::run(open).await.unwrap();
    // During the first 0.7 s of the stall, 70 orders arrive.
    assert!(slow(&entries) >= 60, "{}", slow(&entries));

    let (_shop, address) = shop().await;
    let closed = plan(address, Profile::Closed { clients: 1 }, Extent::Orders(250));
    let (_, entries) = load::run(closed).await.unwrap();
    // On a busy machine, a few others are slow as well.
    assert!((1..30).contains(&slow(&entries)), "the closed model must hide the stall (coordinated omission)");
}

#[tokio::test]
async fn journal_contains_a_line_per_order() {
    let (_shop, address) = serve(Shop::default()).await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal.jsonl");
    let plan = LoadPlan {
        journal: Some(path.clone()),
        ..plan(address, Profile::Closed { clients: 8 }, Extent::Orders(100))
    };
    let (summary, entries) = load::run(plan).await.unwrap();
    assert_eq!(summary.acknowledged, 100);
    assert_eq!(load::read(&path).unwrap(), entries);
    assert!(entries.iter().all(|entry| entry.server.as_deref() == Some("shop-1/7")));
}

#[tokio::test]
async fn aborted_orders_are_sent_again_with_their_key() {
    let (shop, address) = serve(Shop::default()).await;
    let plan = LoadPlan {
        aborts: Some(Aborts { percent: 50 }),
        ..plan(address, Profile::Closed { clients: 8 }, Extent::Orders(200))
    };
    let (summary, entries) = load::run(plan).await.unwrap();
    assert_eq!(summary.acknowledged, 200);
    assert!(entries.iter().any(|entry| entry.attempts > 1));
    assert_eq!(shop.keys.lock().unwrap().len(), 200, "expected one key per order");
}

#[tokio::test]
async fn orders_to_a_dead_server_are_refused() {
    let gone = plan(lock_testkit::unused_address(), Profile::Open { rate: 500.0 }, Extent::Orders(50));
    let (summary, entries) = load::run(gone).await.unwrap();
    let refused = Outcome::Refused { reason: "not-sent".into() };
    assert!(entries.iter().all(|entry| entry.outcome == refused), "{summary:?}");
    let rate = summary.rate.unwrap();
    assert!((rate.requested - 500.0).abs() < 1.0, "{rate:?}");
}
