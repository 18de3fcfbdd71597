//! The stream of snapshots. Each snapshot is serialized once for all open pages.

use super::snapshot::Snapshot;
use axum::response::sse;
use futures_util::{Stream, StreamExt, stream};
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::sync::watch;

/// Delay before a page reconnects.
const RECONNECT_PAUSE: Duration = Duration::from_millis(500);

/// The publisher of snapshots. Dropping it ends the stream of every open page.
#[derive(Debug)]
pub struct Publisher(watch::Sender<Arc<str>>);

impl Publisher {
    /// Creates a publisher with the snapshot `first`, and the feed for the pages.
    #[must_use]
    pub fn new(first: &Snapshot) -> (Self, Feed) {
        let (sender, receiver) = watch::channel(json(first));
        (Self(sender), Feed(receiver))
    }

    /// Sends `snapshot` to every page.
    pub fn publish(&self, snapshot: &Snapshot) {
        self.0.send_replace(json(snapshot));
    }
}

/// A feed of snapshots, starting with the current one. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Feed(watch::Receiver<Arc<str>>);

impl Feed {
    /// Returns the latest snapshot as JSON.
    #[must_use]
    pub fn latest(&self) -> Arc<str> {
        self.0.borrow().clone()
    }

    /// Returns a stream of the latest snapshot and all later ones. A page that reads slowly skips
    /// intermediate snapshots.
    pub(super) fn events(&self) -> impl Stream<Item = Result<sse::Event, Infallible>> + use<> {
        let mut receiver = self.0.clone();
        receiver.mark_changed();
        let hello = sse::Event::default().retry(RECONNECT_PAUSE);
        stream::iter([Ok(hello)]).chain(stream::unfold(receiver, |mut receiver| async move {
            receiver.changed().await.ok()?;
            let json = receiver.borrow_and_update().clone();
            Some((Ok(sse::Event::default().data(json)), receiver))
        }))
    }
}

fn json(snapshot: &Snapshot) -> Arc<str> {
    serde_json::to_string(snapshot).expect("a snapshot serializes to JSON").into()
}
