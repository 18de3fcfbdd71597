//! The watch: a stream of etcd on which the deletions of locks arrive for which somebody waits.

use crate::{
    client::Client,
    error::failed,
    wire::{NO_PUT, WatchCancel, WatchChange, WatchCreate, WatchRequest, WatchResponse},
};
use async_trait::async_trait;
use futures_util::stream;
use lock_core::{
    __private::lock,
    LockName,
    backend::{
        Applied, BackendError, BackendErrorKind, MissedWakes, SubscriberId, SubscriptionRegistry,
        Subscriptions, WakeListener,
    },
};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};
use tokio::sync::{mpsc, oneshot};
use tonic::{Status, Streaming};

const WATCH: &str = "/etcdserverpb.Watch/Watch";

/// The pause before the next attempt to watch.
const RETRY_AFTER: Duration = Duration::from_millis(250);

/// The time limit for the answer to a subscription.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// An order to the task that watches.
enum Order {
    Watch(LockName, oneshot::Sender<()>),
    Leave(LockName),
}

pub(crate) struct Wakes {
    client: Arc<Client>,
    keys: String,
    watchers: SubscriptionRegistry,
    orders: mpsc::UnboundedSender<Order>,
    /// Taken by the task.
    queue: Mutex<Option<mpsc::UnboundedReceiver<Order>>>,
}

/// The requests of a stream, and the names that are watched on it.
struct Watch {
    requests: mpsc::UnboundedSender<WatchRequest>,
    next: i64,
    names: HashMap<i64, LockName>,
    ids: HashMap<LockName, i64>,
    /// Those that wait for the acknowledgement of a watch. One that is acknowledged is not in it.
    waiting: HashMap<i64, Vec<oneshot::Sender<()>>>,
}

impl Wakes {
    pub(crate) fn new(client: Arc<Client>, prefix: &str) -> Self {
        let (orders, queue) = mpsc::unbounded_channel();
        Self {
            client,
            keys: format!("{prefix}lock/"),
            watchers: SubscriptionRegistry::default(),
            orders,
            queue: Mutex::new(Some(queue)),
        }
    }

    /// Watches while somebody waits, for ever.
    pub(crate) async fn watch(&self) {
        let Some(mut queue) = lock(&self.queue).take() else { return };
        let mut was_lost = false;
        loop {
            // Without a stream, those that ask for a watch are refused, and ask again.
            let first = match self.watchers.is_empty() {
                true => match queue.recv().await {
                    Some(Order::Leave(_)) => continue,
                    order => order,
                },
                false => None,
            };
            let watched = self.watch_once(first, &mut queue, was_lost).await;
            was_lost = watched.is_err();
            if let Err(status) = watched {
                tracing::debug!(%status, "lost the watch in etcd");
                tokio::time::sleep(RETRY_AFTER).await;
                self.watchers.forget_gone();
                while queue.try_recv().is_ok() {}
            }
        }
    }

    /// Watches until nobody waits, or the stream is lost.
    async fn watch_once(
        &self,
        first: Option<Order>,
        queue: &mut mpsc::UnboundedReceiver<Order>,
        was_lost: bool,
    ) -> Result<(), Status> {
        let (mut watch, requests) = Watch::new();
        for name in self.watchers.names() {
            watch.add(&self.keys, name, None);
        }
        if let Some(Order::Watch(name, reply)) = first {
            watch.add(&self.keys, name, Some(reply));
        }
        // The server answers to the first request, so that must be in the stream.
        let mut events = self.open(requests).await?;
        let mut is_stale = was_lost;
        loop {
            if watch.names.is_empty() {
                return Ok(());
            }
            if is_stale && watch.waiting.is_empty() {
                is_stale = false;
                self.watchers.wake_all(MissedWakes::Reconnected);
            }
            tokio::select! {
                event = events.message() => match event? {
                    Some(event) => self.handle(&mut watch, event)?,
                    None => return Err(Status::unavailable("the server closed the stream")),
                },
                order = queue.recv() => match order {
                    Some(Order::Watch(name, reply)) => watch.add(&self.keys, name, Some(reply)),
                    Some(Order::Leave(name)) => watch.leave(&name),
                    None => return Ok(()),
                },
            }
        }
    }

    async fn open(
        &self,
        requests: mpsc::UnboundedReceiver<WatchRequest>,
    ) -> Result<Streaming<WatchResponse>, Status> {
        let requested =
            stream::unfold(requests, async |mut requests| Some((requests.recv().await?, requests)));
        let opened = tokio::time::timeout(ANSWERS_WITHIN, self.client.stream(WATCH, requested)).await;
        opened.map_err(|_| Status::deadline_exceeded("the server has not answered"))?
    }

    fn handle(&self, watch: &mut Watch, event: WatchResponse) -> Result<(), Status> {
        if event.created && event.canceled {
            // Refused, without the number of the watch: the login may have ended, or a right is missing.
            self.client.forget_login();
            return Err(Status::unavailable(event.cancel_reason));
        }
        if event.canceled {
            // That of a watch which was left.
            let is_left = !watch.names.contains_key(&event.watch_id);
            return if is_left { Ok(()) } else { Err(Status::unavailable(event.cancel_reason)) };
        }
        if event.created {
            for reply in watch.waiting.remove(&event.watch_id).unwrap_or_default() {
                // The subscriber may be gone.
                let _ = reply.send(());
            }
        }
        if let Some(name) = watch.names.get(&event.watch_id)
            && !event.events.is_empty()
        {
            self.watchers.released(name);
        }
        Ok(())
    }
}

#[async_trait]
impl Subscriptions for Wakes {
    fn register_listener(&self, listener: Weak<dyn WakeListener>) -> SubscriberId {
        self.watchers.forget_gone();
        self.watchers.register_listener(listener)
    }

    async fn subscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.watchers.subscribe(subscriber, name.clone());
        let (reply, answer) = oneshot::channel();
        // The task lives as long as the store.
        let _ = self.orders.send(Order::Watch(name, reply));
        match tokio::time::timeout(ANSWERS_WITHIN, answer).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(failed("watch a lock", Status::unavailable("the stream was lost"))),
            Err(_) => {
                let message = "etcd has not acknowledged a watch in time";
                Err(BackendError::new(BackendErrorKind::Timeout, Applied::Unknown, message))
            }
        }
    }

    async fn unsubscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        if self.watchers.unsubscribe(subscriber, &name) {
            let _ = self.orders.send(Order::Leave(name));
        }
        Ok(())
    }
}

impl fmt::Debug for Wakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wakes").field("keys", &self.keys).finish_non_exhaustive()
    }
}

impl Watch {
    fn new() -> (Self, mpsc::UnboundedReceiver<WatchRequest>) {
        let (requests, queue) = mpsc::unbounded_channel();
        let (names, ids, waiting) = (HashMap::new(), HashMap::new(), HashMap::new());
        (Self { requests, next: 1, names, ids, waiting }, queue)
    }

    fn add(&mut self, keys: &str, name: LockName, reply: Option<oneshot::Sender<()>>) {
        if let Some(id) = self.ids.get(&name) {
            match (self.waiting.get_mut(id), reply) {
                (Some(waiting), reply) => waiting.extend(reply),
                (None, Some(reply)) => drop(reply.send(())),
                (None, None) => {}
            }
            return;
        }
        let id = self.next;
        self.next += 1;
        let key = format!("{keys}{name}").into_bytes();
        let create = WatchCreate { key, filters: vec![NO_PUT], watch_id: id };
        self.send(WatchChange::Create(create));
        self.names.insert(id, name.clone());
        self.ids.insert(name, id);
        self.waiting.insert(id, reply.into_iter().collect());
    }

    fn leave(&mut self, name: &LockName) {
        let Some(id) = self.ids.remove(name) else { return };
        self.names.remove(&id);
        self.waiting.remove(&id);
        self.send(WatchChange::Cancel(WatchCancel { watch_id: id }));
    }

    fn send(&self, request: WatchChange) {
        // A stream that has ended says so where its events are read.
        let _ = self.requests.send(WatchRequest { request: Some(request) });
    }
}
