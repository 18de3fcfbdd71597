//! How do I put a lock around a gRPC service, and which errors does its client see?
//!
//! With `grpc()`, a rejection is a `grpc-status` instead of a problem document. The service here is tonic's health
//! service. Your own is wrapped in the same way, and finds its lock in `request.extensions().get::<LockStatus>()`.

use lock_core::{LockFactory, MemoryBackend};
use lock_tower::{KeyTemplate, LockLayer};
use std::{error::Error, time::Duration};
use tokio::net::TcpListener;
use tonic::{
    Code,
    transport::{Channel, Server, server::TcpIncoming},
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let locks = LockFactory::new(MemoryBackend::new());
    // One call at a time per method and tenant: the method is the path, the tenant is metadata.
    let key = KeyTemplate::of("grpc").part(|request| Ok(request.uri.path().to_owned())).header("tenant");
    let layer = LockLayer::new(locks.clone()).key(key).wait(Duration::from_millis(100)).grpc();

    let (_, health) = tonic_health::server::health_reporter();
    let incoming = TcpIncoming::from(TcpListener::bind("127.0.0.1:0").await?);
    let address = incoming.local_addr()?;
    tokio::spawn(Server::builder().layer(layer).add_service(health).serve_with_incoming(incoming));

    let channel = Channel::from_shared(format!("http://{address}"))?.connect().await?;
    let mut client = HealthClient::new(channel);
    let mut check = async |tenant: Option<&'static str>| {
        let mut request = tonic::Request::new(HealthCheckRequest::default());
        if let Some(tenant) = tenant {
            request.metadata_mut().insert("tenant", tonic::metadata::MetadataValue::from_static(tenant));
        }
        client.check(request).await
    };

    let served = check(Some("acme")).await?;
    println!("served: {:?}", served.into_inner().status());

    let held = locks.named("grpc:%2Fgrpc.health.v1.Health%2FCheck:acme")?.acquire().await?;
    let Err(busy) = check(Some("acme")).await else { return Err("served without the lock".into()) };
    println!("locked by another: {:?}, {}", busy.code(), busy.message());
    assert_eq!(busy.code(), Code::Unavailable);
    assert!(busy.metadata().contains_key("grpc-retry-pushback-ms"));
    held.release().await?;

    let Err(bad) = check(None).await else { return Err("locked under an incomplete name".into()) };
    println!("without a tenant: {:?}, {}", bad.code(), bad.message());
    assert_eq!(bad.code(), Code::InvalidArgument);
    assert!(check(Some("acme")).await.is_ok(), "free again");
    Ok(())
}
