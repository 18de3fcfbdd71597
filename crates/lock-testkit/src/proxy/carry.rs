//! One way of a connection: what is read is delivered in its order, when it is due.

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

/// The largest chunk: larger than any request of a test, so that predicates see those whole.
const CHUNK: usize = 1 << 16;

/// How many chunks wait at most; then the sender has to.
const QUEUE: usize = 256;

/// How a connection goes on when it carries no more.
pub(super) enum End {
    /// Both sides are closed.
    Close,
    /// This chunk is delivered, its answer is not.
    Lose(Vec<u8>),
    /// This chunk is kept.
    Capture(Vec<u8>),
}

/// What was read at once, and when; nothing, if that was the end.
struct Chunk {
    read: Instant,
    bytes: Vec<u8>,
}

/// Carries bytes until a chunk ends the connection, or the server does. When the client ends, this way is closed,
/// and the other goes on.
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

/// Reads until there is no more; a broken connection is one that ended.
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
        // With the receiver gone, what is left is read and dropped: the other way may still have something to
        // deliver, and its own end.
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

/// Returns when something that was read then can be delivered, by the switches as they are meanwhile.
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

/// What becomes of a chunk that is not simply delivered.
fn fate(control: &ProxyControl, bytes: &[u8]) -> Option<fn(Vec<u8>) -> End> {
    let (capture, lose) = {
        let switches = control.switches.borrow();
        (switches.capture.clone(), switches.lose.clone())
    };
    // Asked outside of the lock: a predicate may look at the proxy.
    let yes = |predicate: Option<Predicate>| predicate.is_some_and(|holds| holds(bytes));
    if yes(capture) {
        Some(End::Capture)
    } else if yes(lose) {
        Some(End::Lose)
    } else {
        None
    }
}
