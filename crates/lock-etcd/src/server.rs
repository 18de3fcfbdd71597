//! A cluster, as the clones of a backend share it: its session, its clock, and its keys.

use crate::{client::Client, ends::Ends, place::Place, session::Sessions, wakes::Wakes};
use async_trait::async_trait;
use lock_core::{
    __private::{decode_card, encode_card},
    LockError, LockName,
    backend::{BackendError, Directory, ProcessId, SubscriberId, Subscriptions, WakeListener},
    clock::UtcTime,
    inspect::{ListLimits, Listing, ProcessCard},
};
use std::{
    fmt,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};
use tokio::sync::Notify;

pub(crate) struct Server {
    pub(crate) place: Place,
    pub(crate) sessions: Sessions,
    pub(crate) ends: Ends,
    pub(crate) wakes: Wakes,
    /// The session is to follow a new leader.
    pub(crate) follows: Notify,
    /// The time of the process: that of its wall clock when the store was created, and then that of one that does not step.
    begun: (UtcTime, Instant),
}

/// The keys of a lock.
pub(crate) struct Keys {
    /// Its value is the lease.
    pub(crate) lock: Vec<u8>,
    /// Its value is the depth, if it was entered again.
    pub(crate) depth: Vec<u8>,
}

impl Server {
    /// Must be called in the runtime of its connections.
    pub(crate) fn new(place: Place) -> Result<Self, LockError> {
        let client = Arc::new(Client::new(&place)?);
        Ok(Self {
            sessions: Sessions::new(client.clone(), &place.prefix, place.session),
            wakes: Wakes::new(client, &place.prefix),
            ends: Ends::default(),
            follows: Notify::new(),
            begun: (UtcTime::now(), Instant::now()),
            place,
        })
    }

    pub(crate) fn time(&self) -> UtcTime {
        let (time, instant) = self.begun;
        time + instant.elapsed()
    }

    pub(crate) fn keys_of(&self, kind: &str) -> String {
        format!("{}{kind}/", self.place.prefix)
    }

    pub(crate) fn keys(&self, name: &LockName) -> Keys {
        let key = |kind| (self.keys_of(kind) + name.as_str()).into_bytes();
        Keys { lock: key("lock"), depth: key("depth") }
    }

    /// The key whose value is added to all tokens.
    pub(crate) fn offset_key(&self) -> Vec<u8> {
        format!("{}offset", self.place.prefix).into_bytes()
    }

    fn card_key(&self, process: ProcessId) -> Vec<u8> {
        format!("{}{process}", self.keys_of("card")).into_bytes()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("servers", &self.place.servers)
            .field("prefix", &self.place.prefix)
            .field("session", &self.place.session)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Subscriptions for Server {
    fn register_listener(&self, listener: Weak<dyn WakeListener>) -> SubscriberId {
        self.wakes.register_listener(listener)
    }

    async fn subscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.wakes.subscribe(subscriber, name).await
    }

    async fn unsubscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.wakes.unsubscribe(subscriber, name);
        Ok(())
    }
}

/// Cards last as long as the session.
#[async_trait]
impl Directory for Server {
    async fn write_card(
        &self,
        process: ProcessId,
        card: ProcessCard,
        _: Duration,
    ) -> Result<(), BackendError> {
        let session = self.sessions.ready().await?.session.id;
        self.sessions.put(&self.card_key(process), encode_card(&card), session).await
    }

    async fn remove_card(&self, process: ProcessId) -> Result<(), BackendError> {
        self.sessions.delete(&self.card_key(process)).await
    }

    async fn read_card(&self, process: ProcessId) -> Result<Option<ProcessCard>, BackendError> {
        let card = self.sessions.get(&self.card_key(process)).await?;
        Ok(card.and_then(|card| decode_card(&card)))
    }

    async fn list(&self, prefix: String, limits: ListLimits) -> Result<Listing, BackendError> {
        // One more, which says that there are more.
        let names = self.names(&prefix, limits.names().saturating_add(1)).await?;
        let is_truncated = names.len() > limits.names();
        // A reserved name is not valid.
        let names = names.into_iter().take(limits.names()).filter_map(|name| LockName::new(name).ok());
        Ok(Listing::new(names, is_truncated))
    }
}
