//! How do I stop a server without interrupting work or leaving locks behind?
//!
//! The order: stop accepting requests, let handlers finish (even those whose client has left), release what is held.

use axum::{Router, routing::post};
use http::Request;
use http_body_util::Empty;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use lock_core::{LockFactory, MemoryBackend};
use lock_tower::{DetachedTasks, LockLayer};
use std::{
    error::Error,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use tokio::{net::TcpListener, sync::oneshot};

static WRITTEN: AtomicBool = AtomicBool::new(false);

async fn write() -> &'static str {
    tokio::time::sleep(Duration::from_millis(200)).await;
    WRITTEN.store(true, Ordering::SeqCst);
    "written"
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let store = MemoryBackend::new();
    let locks = LockFactory::new(store.clone());
    let tasks = DetachedTasks::new();
    let layer = LockLayer::new(locks.clone())
        .key("report")
        .max_hold(Duration::from_secs(10)) // limits how long a hanging handler delays the shutdown
        .detach(&tasks);
    let app = Router::new().route("/report", post(write).route_layer(layer));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/report", listener.local_addr()?);
    let (stop, stopped) = oneshot::channel::<()>(); // in production: `lock_core::shutdown_signal()?`
    let serving = axum::serve(listener, app).with_graceful_shutdown(async move { drop(stopped.await) });
    let serving = tokio::spawn(async move { serving.await });

    // A client that leaves before the response.
    let client = Client::builder(TokioExecutor::new()).build_http();
    let request = Request::post(url).body(Empty::<bytes::Bytes>::new())?;
    let asking = tokio::spawn(client.request(request));
    while tasks.running() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    asking.abort();
    drop(client);
    println!("the client has left; {} handler runs, {} lock is held", tasks.running(), store.held().len());

    drop(stop);
    serving.await??; // 1. accept no further requests
    println!("no further requests");
    tasks.drain(Duration::from_secs(20)).await?; // 2. handlers finish
    println!("handlers have finished, written: {}", WRITTEN.load(Ordering::SeqCst));
    assert!(WRITTEN.load(Ordering::SeqCst));
    let report = locks.shutdown().await; // 3. all locks are released; the report names unconfirmed ones
    println!("released: {}, left in the store: {}", report.is_clean(), store.held().len());
    assert!(report.is_clean() && store.held().is_empty());
    Ok(())
}
