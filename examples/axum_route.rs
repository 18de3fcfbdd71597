//! How do I let one request at a time work on one thing, in an axum route?
//!
//! One line: the layer, with a key made of the path. Several server processes over one Redis exclude one another with
//! the same line; here are two servers over one store in memory.

use axum::{Router, extract::Path, response::IntoResponse, routing::post};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use lock_core::{LockFactory, MemoryBackend};
use lock_tower::{LockHandle, LockLayer};
use std::{error::Error, net::SocketAddr, time::Duration};
use tokio::net::TcpListener;

type Answer = Result<(StatusCode, String), Box<dyn Error + Send + Sync>>;

fn app(store: &MemoryBackend) -> Router {
    let locks = LockFactory::new(store.clone()); // in production: `RedisBackend::connect(…).await?`
    Router::new()
        .route("/skus/{sku}/orders", post(order))
        .route_layer(LockLayer::new(locks).key("stock:{sku}").wait(Duration::from_millis(500)))
}

async fn order(lock: LockHandle, Path(sku): Path<String>) -> impl IntoResponse {
    let pause = if sku == "slow" { 1_000 } else { 50 };
    tokio::time::sleep(Duration::from_millis(pause)).await; // the work; fence your writes with the token
    format!("sold one {sku} under token {}", lock.fencing_token())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let store = MemoryBackend::new();
    let (here, there) = (serve(app(&store)).await?, serve(app(&store)).await?);

    // The same SKU on two servers: one after the other, so the second has the higher token.
    let (first, second) = tokio::join!(post_to(here, "/skus/42/orders"), post_to(there, "/skus/42/orders"));
    let (first, second) = (first?, second?);
    println!("{}\n{}", first.1, second.1);
    assert!(first.0.is_success() && second.0.is_success() && first.1 != second.1);

    // Who waits too long is told so, and when to come back.
    let slow = tokio::spawn(post_to(here, "/skus/slow/orders"));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let (status, problem) = post_to(there, "/skus/slow/orders").await?;
    println!("meanwhile, for another: {status}\n{problem}");
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(slow.await??.0.is_success());
    Ok(())
}

async fn serve(app: Router) -> Result<SocketAddr, std::io::Error> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(address)
}

async fn post_to(server: SocketAddr, path: &str) -> Answer {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let request = Request::post(format!("http://{server}{path}")).body(Empty::<bytes::Bytes>::new())?;
    let response = client.request(request).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((status, String::from_utf8(body.to_vec())?))
}
