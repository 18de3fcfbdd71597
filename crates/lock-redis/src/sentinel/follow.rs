//! The task that follows the master. It leaves the old master as soon as the sentinels name
//! another, even if the old one still responds.
//!
//! ```text
//!   a sentinel publishes `+switch-master` ─┐
//!   reconnected to a sentinel              ─┼─▶ query the sentinels ─▶ another master? ─▶ replace the connections
//!   30 s have passed                       ─┘
//! ```

use super::Sentinels;
use crate::{
    client::{Client, Listener, Login, PubSub},
    connection::{Dialer, ManagedConnection, Purpose, ReplaceReason, Target, jittered},
    shared::Shared,
};
use std::{sync::Arc, time::Duration};
use tokio::{sync::Notify, task::JoinHandle, time::timeout};

/// The channel on which a sentinel announces another master.
const CHANNEL: &str = "+switch-master";
/// The maximum time between two queries if no announcement arrives.
const LOOK: Duration = Duration::from_secs(30);
/// The time limit of a ping and of a subscription. A silent connection is detected and replaced within this time.
const ANSWER: Duration = Duration::from_secs(3);

/// The task that follows the master. Dropping it ends the task.
pub(crate) struct Follower(JoinHandle<()>);

/// Receives the sentinels' announcements.
#[derive(Default)]
struct News(Notify);

impl Listener for News {
    fn message(&self, _: &str) {
        self.0.notify_one();
    }

    fn missed(&self) {
        self.0.notify_one();
    }
}

impl Follower {
    /// Starts following the master for the connections of `shared`.
    pub(crate) fn start<C: Client>(sentinels: Arc<Sentinels<C>>, shared: Arc<Shared<C>>) -> Self {
        let keeper = shared.connection.home().keeper().clone();
        Self(keeper.spawn(follow(sentinels, shared)))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn follow<C: Client>(sentinels: Arc<Sentinels<C>>, shared: Arc<Shared<C>>) {
    let news = Arc::new(News::default());
    let dialer = Arc::new(Dialer {
        client: sentinels.client.clone(),
        home: shared.connection.home().clone(),
        target: Target::AnySentinel(sentinels.clone()),
        login: Login::Fixed(sentinels.credentials().clone()),
        limit: sentinels.limit,
        lost: None,
        admission: None,
    });
    let connection = ManagedConnection::begin(dialer, Purpose::Messages(news.clone()));
    let mut changes = connection.changes();
    loop {
        tokio::select! {
            changed = changes.changed() => match changed {
                Ok(()) if changes.borrow_and_update().is_none() => continue,
                Ok(()) => {
                    let subscribing = connection.subscribe(PubSub::Plain, vec![CHANNEL.to_owned()], Vec::new());
                    if !matches!(timeout(ANSWER, subscribing).await, Ok(Ok(()))) {
                        connection.replace(ReplaceReason::SubscriptionFailed);
                        continue;
                    }
                }
                Err(_) => return,
            },
            () = news.0.notified() => {}
            () = tokio::time::sleep(jittered(LOOK)) => {
                let _ = timeout(ANSWER, connection.ping("ping")).await;
            }
        }
        match sentinels.master().await {
            Ok(master) => {
                sentinels.saw(&master.server);
                shared.follow(&master.server);
            }
            Err(error) => tracing::debug!(%error, "failed to query the sentinels for the master"),
        }
    }
}
