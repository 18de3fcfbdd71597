//! The handling of connections: each direction delivers bytes in order at their due times, until the connection is cut
//! or a chunk is lost or captured.

use super::control::{ANSWER_TIMEOUT, Captured, Open, Predicate, ProxyControl, Way};
use std::{future::pending, net::SocketAddr, pin::pin, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    select,
    sync::mpsc::{self, Receiver, Sender},
    time::{Instant, sleep, sleep_until, timeout},
};

/// The maximum chunk size. It exceeds any test request, so predicates see whole requests.
const CHUNK: usize = 1 << 16;
/// The maximum number of queued chunks. The sender waits while the queue is full.
const QUEUE: usize = 256;

/// Accepts connections until the proxy ends. Open connections are then dropped with the runtime.
pub(super) async fn accept(listener: std::net::TcpListener, control: Arc<ProxyControl>) {
    let listener = TcpListener::from_std(listener).expect("failed to register the listener");
    loop {
        let accepted = select! {
            biased;
            () = control.until(|switches| switches.ended) => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((client, _)) = accepted else {
            sleep(Duration::from_millis(10)).await; // possibly a temporary error, such as too many open files
            continue;
        };
        let (refuse, cuts, target) = {
            let switches = control.switches.borrow();
            (switches.refuse, switches.cuts, switches.target)
        };
        if !refuse {
            let open = Open::new(control.clone(), cuts);
            tokio::spawn(serve(client, target, control.clone(), open));
        }
    }
}

/// Carries bytes both ways until the server closes, the connection is cut, or a chunk is lost or captured.
async fn serve(mut client: TcpStream, target: SocketAddr, control: Arc<ProxyControl>, open: Open) {
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

/// The way in which a connection ends.
enum End {
    /// Both sides are closed.
    Close,
    /// This chunk is delivered, but the reply is dropped.
    Lose(Vec<u8>),
    /// This chunk is kept.
    Capture(Vec<u8>),
}

/// The bytes and the time of one read. `bytes` is empty at the end of the stream.
struct Chunk {
    read: Instant,
    bytes: Vec<u8>,
}

/// Carries bytes until a chunk or the server ends the connection. When the client closes its side,
/// this direction is closed and the other one continues.
async fn carry(control: &ProxyControl, way: Way, from: &mut ReadHalf<'_>, to: &mut WriteHalf<'_>) -> End {
    let (queue, queued) = mpsc::channel(QUEUE);
    let mut delivering = pin!(deliver(control, way, queued, to));
    select! {
        end = &mut delivering => end,
        () = collect(from, queue) => delivering.await,
    }
}

/// Reads until the stream ends. A broken connection counts as an ended stream.
async fn collect(from: &mut ReadHalf<'_>, queue: Sender<Chunk>) {
    let mut buffer = vec![0; CHUNK];
    loop {
        let count = from.read(&mut buffer).await.unwrap_or(0);
        let chunk = Chunk { read: Instant::now(), bytes: buffer[..count].to_vec() };
        if queue.send(chunk).await.is_err() || count == 0 {
            return;
        }
    }
}

async fn deliver(
    control: &ProxyControl,
    way: Way,
    mut queue: Receiver<Chunk>,
    to: &mut WriteHalf<'_>,
) -> End {
    while let Some(Chunk { read, bytes }) = queue.recv().await {
        due(control, way, read).await;
        if bytes.is_empty() {
            break;
        }
        if way == Way::ToServer
            && let Some(end) = fate(control, &bytes)
        {
            return end(bytes);
        }
        // After the receiver is gone, read and drop the remaining bytes. The other direction may
        // still have bytes to deliver and ends separately.
        let _ = to.write_all(&bytes).await;
    }
    match way {
        Way::ToClient => End::Close,
        Way::ToServer => {
            let _ = to.shutdown().await;
            pending().await
        }
    }
}

/// Waits until bytes that were read at `read` may be delivered, taking changes to the switches into
/// account.
async fn due(control: &ProxyControl, way: Way, read: Instant) {
    let mut switches = control.switches.subscribe();
    loop {
        let (stalled, due) = {
            let switches = switches.borrow_and_update();
            (switches.stalls(way), read + switches.delay)
        };
        if !stalled && due <= Instant::now() {
            return;
        }
        select! {
            _ = switches.changed() => {}
            () = sleep_until(due), if !stalled => {}
        }
    }
}

/// Returns the fate of a chunk that is not simply delivered.
fn fate(control: &ProxyControl, bytes: &[u8]) -> Option<fn(Vec<u8>) -> End> {
    let (capture, lose) = {
        let switches = control.switches.borrow();
        (switches.capture.clone(), switches.lose.clone())
    };
    // Hold no lock here, because a predicate may use the proxy.
    let yes = |predicate: Option<Predicate>| predicate.is_some_and(|holds| holds(bytes));
    if yes(capture) {
        Some(End::Capture)
    } else if yes(lose) {
        Some(End::Lose)
    } else {
        None
    }
}
