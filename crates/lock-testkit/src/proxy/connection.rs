//! The handling of one connection.

use super::{
    captured::{ANSWER_TIMEOUT, Captured},
    carry::{End, carry},
    control::{Open, ProxyControl},
    switches::Way,
};
use std::{net::SocketAddr, sync::Arc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    select,
    time::timeout,
};

/// Carries bytes both ways until the server closes, the connection is cut, or a chunk is lost or captured.
pub(super) async fn serve(mut client: TcpStream, target: SocketAddr, control: Arc<ProxyControl>, open: Open) {
    let connecting = select! {
        biased;
        () = open.cut() => return,
        connecting = TcpStream::connect(target) => connecting,
    };
    let Ok(mut server) = connecting else { return };
    if client.set_nodelay(true).and_then(|()| server.set_nodelay(true)).is_err() {
        return;
    }
    let end = {
        let (mut from_client, mut to_client) = client.split();
        let (mut from_server, mut to_server) = server.split();
        // Polled in random order: with a fixed order, a busy direction to the server could starve
        // the other.
        select! {
            () = open.cut() => End::Close,
            end = carry(&control, Way::ToServer, &mut from_client, &mut to_server) => end,
            end = carry(&control, Way::ToClient, &mut from_server, &mut to_client) => end,
        }
    };
    match end {
        End::Close => {
            drop(client);
            drop(open);
        }
        End::Lose(chunk) => lose(chunk, client, server, &control, open).await,
        End::Capture(chunk) => {
            // Store the chunk before the client can notice.
            control.ledger().captured.extend(Captured::new(server, chunk));
            drop(client);
            drop(open);
        }
    }
}

async fn lose(chunk: Vec<u8>, client: TcpStream, mut server: TcpStream, control: &ProxyControl, open: Open) {
    if matches!(timeout(ANSWER_TIMEOUT, server.write_all(&chunk)).await, Ok(Ok(()))) {
        let mut answer = [0; 1024];
        select! {
            () = open.cut() => {}
            _ = timeout(ANSWER_TIMEOUT, server.read(&mut answer)) => {}
        }
        control.ledger().lost += 1; // count it before the client can notice
    }
    drop(client);
    drop(open);
    finish(server).await;
}

/// Closes the server's side after the server has executed everything it was sent. Closing with
/// unread bytes would reset the connection and discard bytes that the server has not read.
async fn finish(mut server: TcpStream) {
    let _ = server.shutdown().await;
    let mut rest = [0; 1024];
    let _ = timeout(ANSWER_TIMEOUT, async { while matches!(server.read(&mut rest).await, Ok(1..)) {} }).await;
}
