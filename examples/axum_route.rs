//! How do I serialise requests for the same resource in an axum route?
//!
//! A layer on the method of the route locks a key that is built from the path. Several server processes over one
//! Redis exclude one another with the same code; here two servers share one in-memory store.

use axum::{Router, extract::Path, response::IntoResponse, routing::post};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use lock_core::{LockFactory, MemoryBackend};
use lock_tower::{BufferRequestLayer, KeyTemplate, LockHandle, LockLayer};
use std::{error::Error, net::SocketAddr, time::Duration};
use tokio::net::TcpListener;

type Answer = Result<(StatusCode, String), Box<dyn Error + Send + Sync>>;

fn app(store: &MemoryBackend) -> Router {
    let locks = LockFactory::new(store.clone()); // in production: `RedisBackend::connect(…).await?`
    let lock = LockLayer::new(locks)
        .key(KeyTemplate::of("stock").path_as::<u64>("sku")) // `7` and `07` are one lock; `x` is a 400
        .wait(Duration::from_secs(1))
        .max_hold(Duration::from_secs(5)); // limits how long a slow reader keeps the lock; the default is 30 s
    // On the method instead of the router: GET (405) and OPTIONS take no lock. The layer added last runs first, so
    // the body has arrived before the lock is taken.
    let order = post(order).route_layer(lock).route_layer(BufferRequestLayer::new());
    Router::new().route("/skus/{sku}/orders", order)
}

async fn order(lock: LockHandle, Path(sku): Path<u64>) -> impl IntoResponse {
    tokio::time::sleep(Duration::from_millis(50)).await; // the work; fence your writes with the token
    format!("sold one {sku} under token {}", lock.fencing_token())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let store = MemoryBackend::new();
    let (here, there) = (serve(app(&store)).await?, serve(app(&store)).await?);

    // The same SKU on two servers: the requests run one after the other, so the second has the higher token.
    let (first, second) = tokio::join!(ask("POST", here, 42), ask("POST", there, 42));
    let (first, second) = (first?, second?);
    println!("{}\n{}", first.1, second.1);
    assert!(first.0.is_success() && second.0.is_success() && first.1 != second.1);

    // A request that waits too long gets a 503 with `Retry-After`. Methods other than POST do not wait.
    let held = LockFactory::new(store).named("stock:7")?.acquire().await?;
    let (status, problem) = ask("POST", there, 7).await?;
    println!("meanwhile, another request: {status}\n{problem}");
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(ask("GET", there, 7).await?.0, StatusCode::METHOD_NOT_ALLOWED);
    held.release().await?;
    Ok(())
}

async fn serve(app: Router) -> Result<SocketAddr, std::io::Error> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(address)
}

async fn ask(method: &str, server: SocketAddr, sku: u64) -> Answer {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let request = Request::builder().method(method).uri(format!("http://{server}/skus/{sku}/orders"));
    let response = client.request(request.body(Empty::<bytes::Bytes>::new())?).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((status, String::from_utf8(body.to_vec())?))
}
