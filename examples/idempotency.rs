//! How do I charge a card once, although the client repeats its request?
//!
//! A lock alone does not: it lets the two requests run one after the other, and both charge. So the result is stored
//! under the `Idempotency-Key`, and looked up again under the lock: the lock makes look-up and store one step.

use axum::{Router, extract::State, http::HeaderMap, routing::post};
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use lock_core::{LockFactory, MemoryBackend};
use lock_tower::{DetachedTasks, KeyTemplate, LockHandle, LockLayer};
use std::{
    collections::HashMap,
    error::Error,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::net::TcpListener;

/// In production: a table with the key as its primary key, written in the transaction that books the charge.
#[derive(Clone, Default)]
struct Results(Arc<Mutex<HashMap<String, String>>>);

impl Results {
    fn with<R>(&self, f: impl FnOnce(&mut HashMap<String, String>) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn charge(State(results): State<Results>, lock: LockHandle, headers: HeaderMap) -> String {
    let key = String::from_utf8_lossy(headers["idempotency-key"].as_bytes()).into_owned(); // or the lock refused
    if let Some(result) = results.with(|results| results.get(&key).cloned()) {
        return format!("{result} (told again)");
    }
    tokio::time::sleep(Duration::from_millis(50)).await; // the payment provider
    let result = format!("charged under token {}", lock.fencing_token());
    results.with(|results| results.insert(key, result.clone()));
    result
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let (results, tasks) = (Results::default(), DetachedTasks::new());
    let layer = LockLayer::new(LockFactory::new(MemoryBackend::new()))
        .key(KeyTemplate::of("payment").header("idempotency-key")) // without one: 400
        .detach(&tasks); // a client that leaves must not stop it between charge and store
    let app = Router::new().route("/payments", post(charge).route_layer(layer)).with_state(results.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/payments", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, app).await });

    let client = Client::builder(TokioExecutor::new()).build_http();
    let pay = async || -> Result<String, Box<dyn Error + Send + Sync>> {
        let request =
            Request::post(&url).header("idempotency-key", "order-7").body(Empty::<bytes::Bytes>::new())?;
        let body = client.request(request).await?.into_body().collect().await?.to_bytes();
        Ok(String::from_utf8(body.to_vec())?)
    };
    // The client loses patience, and repeats; a second tab sends the same.
    assert!(tokio::time::timeout(Duration::from_millis(20), pay()).await.is_err());
    let (one, two) = tokio::join!(pay(), pay());
    println!("{}\n{}", one?, two?);
    let charged = results.with(|results| results.len());
    println!("three requests, {charged} charge");
    assert_eq!(charged, 1);
    Ok(())
}
