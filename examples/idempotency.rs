//! How do I charge a card only once, even if clients repeat requests and servers crash?
//!
//! Store the **intent** first, so that a crash leaves a trace. Send the **provider** the same key with each attempt:
//! it charges once per key. The **lock** lets one request per key work at a time. It can be lost after the charge.

use axum::{BoxError, Router, body, extract::State, http, routing::post};
use lock_core::{LockFactory, MemoryBackend};
use lock_tower::{DetachedTasks, KeyTemplate, LockLayer};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::{sync::Mutex, time};
use tower::ServiceExt;

#[derive(Clone, Default)]
struct Shop {
    /// In production a table. `None` is an intent without a receipt. Refuse a key that is reused with another amount.
    payments: Arc<Mutex<HashMap<String, Option<String>>>>,
    /// At the provider: one receipt per `Idempotency-Key`, for a limited time, often 24 hours.
    charges: Arc<Mutex<HashMap<String, String>>>,
}

impl Shop {
    /// Pays for an order. Every step can be repeated, even after a crash between any two.
    async fn pay(&self, key: &str) -> String {
        if let Some(receipt) = self.intend(key).await {
            return format!("{receipt} (stored before)");
        }
        let receipt = self.charge(key).await;
        self.payments.lock().await.insert(key.to_owned(), Some(receipt.clone()));
        receipt
    }

    /// Stores the intent, which is committed before anything is charged. Returns the receipt if there is one.
    async fn intend(&self, key: &str) -> Option<String> {
        self.payments.lock().await.entry(key.to_owned()).or_default().clone()
    }

    async fn charge(&self, key: &str) -> String {
        time::sleep(Duration::from_millis(50)).await;
        let (mut charges, receipt) = (self.charges.lock().await, format!("charge of {key}"));
        charges.entry(key.to_owned()).or_insert(receipt).clone()
    }

    /// Completes payments after a crash, at server start and every few minutes, since the client may never return.
    async fn recover(&self, locks: &LockFactory) -> Result<(), BoxError> {
        let payments = self.payments.lock().await.clone();
        for key in payments.into_iter().filter(|(_, receipt)| receipt.is_none()).map(|(key, _)| key) {
            let guard = locks.named(format!("payment:{key}"))?.acquire().await?; // the name that the layer builds
            let receipt = self.pay(&key).await;
            println!("recovered {key}: {receipt}; {:?}", guard.release().await); // no `?`: the charge was made
        }
        Ok(())
    }
}

async fn pay(State(shop): State<Shop>, headers: http::HeaderMap) -> String {
    shop.pay(&String::from_utf8_lossy(headers["idempotency-key"].as_bytes())).await // without it: 400, by the layer
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let (shop, locks) = (Shop::default(), LockFactory::new(MemoryBackend::new()));
    let key = KeyTemplate::of("payment").header("idempotency-key");
    let layer = LockLayer::new(locks.clone()).key(key).detach(&DetachedTasks::new()); // continues when a client leaves
    let app = Router::new().route("/payments", post(pay).route_layer(layer)).with_state(shop.clone());
    let ask = async |key: &str| -> Result<String, BoxError> {
        let request =
            http::Request::post("/payments").header("idempotency-key", key).body(body::Body::empty())?;
        let answer = app.clone().oneshot(request).await?.into_body();
        Ok(String::from_utf8(body::to_bytes(answer, 1024).await?.to_vec())?)
    };
    drop(time::timeout(Duration::from_millis(20), ask("order-7")).await); // the client gives up,
    let (one, two) = tokio::join!(ask("order-7"), ask("order-7")); // and repeats; a second tab sends the same
    println!("{}\n{}\nthree requests, {} charge", one?, two?, shop.charges.lock().await.len());
    shop.intend("order-8").await;
    shop.charge("order-8").await; // a server crashes here, before it stores the receipt
    shop.recover(&locks).await?;
    println!("{}\n{} charges in all", ask("order-8").await?, shop.charges.lock().await.len());
    Ok(())
}
