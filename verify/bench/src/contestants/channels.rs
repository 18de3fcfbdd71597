//! Release messages for the floors. A process subscribes once for each name and wakes one waiter per message.

use super::floor::open;
use crate::Result;
use fred::{
    clients::Client,
    interfaces::{EventInterface, PubsubInterface},
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::{Notify, OnceCell, broadcast::error::RecvError};

type ByName = Arc<Mutex<HashMap<String, Arc<Channel>>>>;

pub(crate) struct Channels {
    subscriber: Client,
    by_name: ByName,
}

#[derive(Default)]
pub(crate) struct Channel {
    subscribed: OnceCell<()>,
    released: Notify,
}

impl Channels {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let subscriber = open(url).await?;
        let (mut messages, by_name) = (subscriber.message_rx(), ByName::default());
        let listening = by_name.clone();
        tokio::spawn(async move {
            loop {
                let message = messages.recv().await;
                let channels = listening.lock().unwrap_or_else(PoisonError::into_inner);
                match message {
                    Ok(message) => {
                        channels.get(&*message.channel).into_iter().for_each(|it| it.released.notify_one())
                    }
                    // fred dropped messages without reporting their names, so one waiter of every name is woken.
                    Err(RecvError::Lagged(_)) => channels.values().for_each(|it| it.released.notify_one()),
                    Err(RecvError::Closed) => break,
                }
            }
        });
        Ok(Self { subscriber, by_name })
    }

    pub(crate) fn get(&self, name: &str) -> Arc<Channel> {
        let mut channels = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        channels.entry(name.to_owned()).or_default().clone()
    }

    /// Waits for a release, at most for the remaining lease of the holder. The first waiter only subscribes and
    /// returns, so that it tries to acquire the lock again.
    pub(crate) async fn wait(&self, name: &str, channel: &Channel, lease: Duration) -> Result<()> {
        if channel.subscribed.initialized() {
            let _ = tokio::time::timeout(lease, channel.released.notified()).await;
        } else {
            channel.subscribed.get_or_try_init(|| self.subscriber.subscribe(name)).await?;
        }
        Ok(())
    }
}
