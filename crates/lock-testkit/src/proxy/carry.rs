//! One direction of a connection, which delivers bytes in order at their due times.

use super::{
    control::ProxyControl,
    switches::{Predicate, Way},
};
use std::{future::pending, pin::pin};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::tcp::{ReadHalf, WriteHalf},
    select,
    sync::mpsc::{self, Receiver, Sender},
    time::{Instant, sleep_until},
};

/// The maximum chunk size. It exceeds any test request, so predicates see whole requests.
const CHUNK: usize = 1 << 16;

/// The maximum number of queued chunks. The sender waits while the queue is full.
const QUEUE: usize = 256;

/// The way in which a connection ends.
pub(super) enum End {
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
pub(super) async fn carry(
    control: &ProxyControl,
    way: Way,
    from: &mut ReadHalf<'_>,
    to: &mut WriteHalf<'_>,
) -> End {
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
