//! A reply that arrives twice: each later reply belongs to the request before, and none of them may become a grant.

use super::support::{answered, client, name, until};
use lock_core::backend::{
    AcquireMode, Acquired, Applied, BackendErrorKind as Kind, BackendExt as _, NotifyWaiters, ReleaseRequest,
};
use lock_testkit::{RedisServer, contender::Contender};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

const LEASE: Duration = Duration::from_secs(600);

/// Starts a proxy, and returns its port. The first reply to an `HDEL` arrives twice, and the reply that is then left
/// over while the next script is running.
async fn proxy(server: SocketAddr) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let doubled = Arc::new(AtomicBool::new(false));
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(server).await.unwrap();
            tokio::spawn(carry(client, server, doubled.clone()));
        }
    });
    port
}

async fn carry(
    mut client: TcpStream,
    mut server: TcpStream,
    doubled: Arc<AtomicBool>,
) -> std::io::Result<()> {
    const FREED: &[u8] = b":1\r\n";
    let (mut request, mut reply) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let (mut frees, mut left_over) = (false, None::<Vec<u8>>);
    loop {
        tokio::select! {
            count = client.read(&mut request) => {
                let request = match count? {
                    0 => return Ok(()),
                    count => &request[..count],
                };
                let has = |word: &[u8]| request.windows(word.len()).any(|part| part == word);
                if has(b"HDEL") && !doubled.swap(true, Ordering::Relaxed) {
                    frees = true;
                }
                if has(b"EVAL") && let Some(reply) = left_over.take() {
                    client.write_all(&reply).await?;
                }
                server.write_all(request).await?;
            }
            count = server.read(&mut reply) => {
                let reply = match count? {
                    0 => return Ok(()),
                    count => &reply[..count],
                };
                match &mut left_over {
                    Some(left_over) => left_over.extend(reply),
                    None if frees && reply.starts_with(FREED) => {
                        frees = false;
                        client.write_all(&[FREED, FREED].concat()).await?;
                        left_over = Some(reply[FREED.len()..].to_vec());
                    }
                    None => client.write_all(reply).await?,
                }
            }
        }
    }
}

#[tokio::test]
async fn reply_to_another_command_is_no_grant() {
    let server = RedisServer::start();
    let port = proxy(server.address()).await;
    let (near, far) = (client(&server.url()).await, client(&format!("redis://127.0.0.1:{port}")).await);
    Contender::new(&near).take(&name("x"), LEASE).await;

    let (first, second) = (Contender::new(&far), Contender::new(&far));
    first.take(&name("y"), LEASE).await;
    let notify = NotifyWaiters::EvenIfGone;
    let release = ReleaseRequest { name: name("y"), lease: first.lease(), depth_left: 0, notify };
    far.release(release).await.unwrap();
    let mode = AcquireMode::New { reserve: 0, floor: None };
    let request = second.request(&name("x"), LEASE, mode).await;
    let stray = answered("the acquire", far.acquire(request.clone())).await;
    let error = stray.expect_err("this is the reply to `PUBLISH`");
    assert_eq!((error.kind(), error.applied()), (Kind::Protocol, Applied::Unknown));
    until("the connection is replaced", async || {
        let reply = far.acquire(request.clone()).await;
        reply.is_ok_and(|reply| matches!(reply.outcome, Acquired::Busy { .. }))
    })
    .await;
}
