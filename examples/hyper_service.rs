//! How do I put a lock around a plain hyper service, without a framework?
//!
//! The layer wraps any tower service. Without axum there are no path parameters: the key is read from headers, from
//! the query or by a function, and the handler finds the lock in the request's extensions.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Full};
use hyper::{body::Incoming, server::conn::http1};
use hyper_util::{client::legacy::Client, rt::TokioExecutor, rt::TokioIo, service::TowerToHyperService};
use lock_core::{LockFactory, MemoryBackend};
use lock_tower::{KeyTemplate, LockLayer, LockStatus};
use std::{convert::Infallible, error::Error};
use tokio::net::TcpListener;
use tower::ServiceBuilder;

async fn transfer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let said = match request.extensions().get::<LockStatus>().and_then(LockStatus::handle) {
        Some(lock) => format!("{} is locked, token {}", lock.name(), lock.fencing_token()),
        None => "a read-only request needs no lock".to_owned(),
    };
    Ok(Response::new(Full::from(said)))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let locks = LockFactory::new(MemoryBackend::new());
    let layer = LockLayer::new(locks.clone())
        .key(KeyTemplate::of("account").header("x-tenant").query_as::<u64>("account")) // `7` and `07` are one
        .methods([http::Method::POST])
        .fail_fast();
    let service = ServiceBuilder::new().layer(layer).service_fn(transfer);

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(service.clone());
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });

    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let ask = async |method: &str, query: &str| -> Result<StatusCode, Box<dyn Error + Send + Sync>> {
        let request = Request::builder().method(method).uri(format!("http://{address}/transfer{query}"));
        let response = client.request(request.header("x-tenant", "acme:eu").body(Empty::new())?).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        println!("{method} {query}: {status}, {}", String::from_utf8_lossy(&body));
        Ok(status)
    };
    assert!(ask("POST", "?account=7").await?.is_success());
    assert!(ask("GET", "").await?.is_success());
    // A part of the key is missing: the request is rejected instead of locking an incomplete name.
    assert_eq!(ask("POST", "").await?, StatusCode::BAD_REQUEST);
    // Another holder has the lock.
    let held = locks.named("account:acme%3Aeu:7")?.acquire().await?;
    assert_eq!(ask("POST", "?account=7").await?, StatusCode::CONFLICT);
    held.release().await?;
    Ok(())
}
