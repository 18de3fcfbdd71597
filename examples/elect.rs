//! How do I let one of several processes do the work, and tell a readiness probe which one it is?
//!
//! Two servers over one store in memory; in production they are processes over one Redis, with the same lines.

use axum::{Router, routing::get};
use http::StatusCode;
use http_body_util::Empty;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use lock_core::{
    LockError, LockFactory, MemoryBackend,
    election::{Election, LeadEnd, Role},
};
use std::{convert::Infallible, error::Error, future::ready, net::SocketAddr, time::Duration};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

/// 200 on the leader, 503 elsewhere: a load balancer sends requests only to the leader.
fn probe(election: &Election) -> Router {
    let role = election.role();
    let ready = move || match role.borrow().is_leading() {
        true => ready(StatusCode::OK),
        false => ready(StatusCode::SERVICE_UNAVAILABLE),
    };
    Router::new().route("/ready", get(ready))
}

/// A server that campaigns until `shutdown` is dropped; in production until
/// `lock_core::shutdown_signal()?` completes.
fn server(election: &Election, shutdown: oneshot::Receiver<()>) -> JoinHandle<Result<LeadEnd, LockError>> {
    let leading = election.lead(|term| async move {
        println!("relaying messages under token {}", term.fencing_token());
        while more().await {
            // … read a batch, send it, and let the target refuse tokens below that of the term …
        }
        Ok::<(), Infallible>(()) // all work is done: no server needs to lead
    });
    tokio::spawn(leading.until(async { drop(shutdown.await) }))
}

async fn more() -> bool {
    tokio::time::sleep(Duration::from_millis(20)).await;
    true
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let store = MemoryBackend::new();
    let election = || LockFactory::new(store.clone()).election("outbox");
    let (first, second) = (election()?, election()?);
    let probes = (serve(probe(&first)).await?, serve(probe(&second)).await?);

    let (stop_first, stopped) = oneshot::channel();
    let first_server = server(&first, stopped);
    first.role().wait_for(Role::is_leading).await?;
    let (stop_second, stopped) = oneshot::channel();
    let second_server = server(&second, stopped);
    second.role().wait_for(|role| role.leader().is_some()).await?;
    println!("first: {}, second: {}", ask(probes.0).await?, ask(probes.1).await?);

    // The body ends first, then the lock is released, and the other server leads immediately.
    drop(stop_first);
    assert_eq!(first_server.await??, LeadEnd::Stopped);
    second.role().wait_for(Role::is_leading).await?;
    println!("first: {}, second: {}", ask(probes.0).await?, ask(probes.1).await?);
    drop(stop_second);
    second_server.await??;
    Ok(())
}

async fn serve(app: Router) -> Result<SocketAddr, std::io::Error> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(address)
}

async fn ask(server: SocketAddr) -> Result<StatusCode, Box<dyn Error + Send + Sync>> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<bytes::Bytes>>();
    Ok(client.get(format!("http://{server}/ready").parse()?).await?.status())
}
