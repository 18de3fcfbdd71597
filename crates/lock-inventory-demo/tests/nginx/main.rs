//! Tests of the shops behind nginx: `cargo test -p lock-inventory-demo --test nginx`.

// Tests may unwrap.
#![allow(clippy::unwrap_used)]

mod proxy;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use lock_inventory_demo::{
    balancer::Servers,
    fleet::{Fleet, PrivateRedis, ShopCommand},
    http_client::HttpClient,
};
use proxy::Nginx;
use std::{collections::BTreeMap, ffi::OsString, sync::Arc};

const CLIENTS: usize = 8;
const ORDERS_EACH: usize = 50;

#[test]
fn compose_file_is_valid() {
    let checked = Nginx::check(&["127.0.0.1:8080".parse().unwrap()]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn four_shops_share_the_requests_without_failures() {
    let redis = PrivateRedis::start().await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let database = format!("sqlite://{}", directory.path().join("shop.sqlite").display());
    let arguments = ["serve", "--headless", "--until-stdin-ends", "--database", &database, "--wait", "60000"];
    let command = ShopCommand {
        program: env!("CARGO_BIN_EXE_lock-inventory-demo").into(),
        arguments: arguments.map(OsString::from).into(),
        secrets: vec![("DEMO_REDIS".into(), redis.url())],
    };
    let fleet = Fleet::start(vec![command; 4], Servers::default(), directory.path()).await.unwrap();
    let addresses: Vec<_> = fleet.statuses().iter().map(|status| status.address).collect();
    let nginx = Nginx::start(&addresses);

    let client = Arc::new(HttpClient::new(nginx.address));
    let sku = sku(&client).await;
    let clients = (0..CLIENTS).map(|number| tokio::spawn(orders(client.clone(), sku.clone(), number)));
    let mut shares = BTreeMap::<String, usize>::new();
    for client in clients {
        for shop in client.await.unwrap() {
            *shares.entry(shop).or_default() += 1;
        }
    }
    println!("responses by shop: {shares:?}");
    assert_eq!(shares.len(), 4, "{shares:?}");
    let least = CLIENTS * ORDERS_EACH * 15 / 100;
    assert!(
        shares.values().all(|share| *share >= least),
        "expected at least {least} for each shop: {shares:?}"
    );
    fleet.stop().await.unwrap();
}

/// Returns the code of the first product.
async fn sku(client: &HttpClient<Full<Bytes>>) -> String {
    let request = Request::get("/skus").body(Full::default()).unwrap();
    let body = client.send(request).await.unwrap().into_body().collect().await.unwrap().to_bytes();
    let products: serde_json::Value = serde_json::from_slice(&body).unwrap();
    products[0]["sku"].as_str().unwrap().to_owned()
}

/// Places orders one after the other, and returns the shop that handled each order.
async fn orders(client: Arc<HttpClient<Full<Bytes>>>, sku: String, number: usize) -> Vec<String> {
    let mut shops = Vec::new();
    for order in 0..ORDERS_EACH {
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("/skus/{sku}/orders"))
            .header("content-type", "application/json")
            .header("idempotency-key", format!("client-{number}-order-{order}"))
            .body(Full::from(r#"{"quantity":1}"#))
            .unwrap();
        let response = client.send(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let sold = head.status == StatusCode::CREATED;
        let sold_out = head.status == StatusCode::CONFLICT;
        assert!(sold || sold_out, "{}: {}", head.status, String::from_utf8_lossy(&body));
        let shop = head.headers["x-shop"].to_str().unwrap();
        shops.push(shop.split('/').next().unwrap().to_owned());
    }
    shops
}
