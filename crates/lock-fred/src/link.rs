//! One connection to the server: kept up, known to be down when it is down, and replaced when it is of no use.

use crate::{
    error::{connection_lost, not_connected, runtime_ended, translate},
    pulse::{Pulse, SILENCE},
};
use fred::{
    clients::Client,
    error::{Error, ErrorKind},
    interfaces::{ClientLike, EventInterface},
    types::{Builder, ConnectHandle},
};
use lock_core::BackendError;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{Notify, broadcast::error::RecvError, watch},
    task::JoinHandle,
    time::sleep,
};

/// How long a request waits for a connection that is being made anew.
const GRACE: Duration = Duration::from_millis(300);
/// After that time fred's own state is true again: it goes on saying "connected" until its first new attempt.
const SETTLED: Duration = Duration::from_millis(300);
/// Between two starts of a client that gave up.
const RESTART: Duration = Duration::from_secs(1);

/// A client of fred and the tasks that carry it; they end when this is dropped.
pub(crate) struct Link {
    pub(crate) client: Client,
    up: watch::Receiver<bool>,
    useless: Arc<Useless>,
    tasks: Vec<JoinHandle<()>>,
}

/// How it shows that another connection is needed.
#[derive(Default)]
struct Useless {
    pulse: Pulse,
    /// The server has become a replica: behind the same address there may be a master by now.
    replica: Notify,
}

impl Link {
    /// Connects. Everything that carries the connection runs on the current runtime.
    pub(crate) async fn open(builder: &Builder) -> Result<Self, Error> {
        let client = builder.build()?;
        let (is_up, up) = watch::channel(true);
        // What is dropped before it is open leaves nothing running.
        let mut link = Self { client, up, useless: Arc::default(), tasks: Vec::new() };
        let follow = follow(link.client.clone(), is_up);
        let carried = Carried(link.client.init().await?);
        link.tasks.push(tokio::spawn(follow));
        link.tasks.push(tokio::spawn(keep_up(link.client.clone(), carried)));
        link.tasks.push(tokio::spawn(replace(link.client.clone(), link.useless.clone())));
        Ok(link)
    }

    pub(crate) fn is_up(&self) -> bool {
        *self.up.borrow()
    }

    /// Runs one request, which is sent at most once, and not at all while there is no connection: fred would queue
    /// it and send it whenever a connection comes, even if nobody waits any more.
    pub(crate) async fn ask<T>(
        &self,
        what: &str,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, BackendError> {
        let mut up = self.up.clone();
        if up.has_changed().is_err() {
            return Err(runtime_ended(what));
        }
        if !self.is_up() && tokio::time::timeout(GRACE, up.wait_for(|&up| up)).await.is_err() {
            return Err(not_connected(what));
        }
        let sent = self.useless.pulse.sent();
        let answer = tokio::select! {
            biased;
            answer = request => answer,
            () = stays_down(up) => return Err(connection_lost(what)),
        };
        match &answer {
            // Only fred's own impatience is no answer.
            Err(error) if *error.kind() == ErrorKind::Timeout => {}
            _ => sent.heard(),
        }
        answer.map_err(|error| {
            if error.details().starts_with("READONLY") {
                self.useless.replica.notify_one();
            }
            translate(what, &error)
        })
    }
}

/// Returns when there has been no connection for a while.
async fn stays_down(mut up: watch::Receiver<bool>) {
    loop {
        if up.wait_for(|&up| !up).await.is_err() {
            // Nobody follows the connection any more.
            return;
        }
        if tokio::time::timeout(GRACE, up.wait_for(|&up| up)).await.is_err() {
            return;
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// The task of fred that carries a connection; aborted with this.
struct Carried(ConnectHandle);

impl Drop for Carried {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Says whether there is a connection, from the moment on at which one is lost.
fn follow(client: Client, up: watch::Sender<bool>) -> impl Future<Output = ()> {
    // Before the connection is made, so that nothing is missed.
    let (mut errors, mut reconnects) = (client.error_rx(), client.reconnect_rx());
    async move {
        loop {
            let is_up = tokio::select! {
                // A loss and the connection after it may both be waiting here.
                biased;
                error = errors.recv() => match error {
                    Ok(_) | Err(RecvError::Lagged(_)) => false,
                    Err(RecvError::Closed) => return,
                },
                made = reconnects.recv() => match made {
                    Ok(_) | Err(RecvError::Lagged(_)) => true,
                    Err(RecvError::Closed) => return,
                },
                () = sleep(SETTLED), if !*up.borrow() => client.is_connected(),
            };
            up.send_if_modified(|up| std::mem::replace(up, is_up) != is_up);
        }
    }
}

/// fred reconnects by itself, except after errors that it takes for final. What is misconfigured can be mended while
/// we run.
async fn keep_up(client: Client, mut carried: Carried) {
    loop {
        match (&mut carried.0).await {
            Ok(Ok(())) => tracing::debug!("a connection to redis ended, it is made anew"),
            Ok(Err(error)) => tracing::warn!(%error, "a connection to redis ended, it is made anew"),
            Err(_) => return,
        }
        sleep(RESTART).await;
        carried = Carried(client.connect());
    }
}

async fn replace(client: Client, useless: Arc<Useless>) {
    loop {
        tokio::select! {
            () = useless.pulse.died() => {
                tracing::warn!("redis has not answered for {SILENCE:?}, the connection is made anew");
            }
            () = useless.replica.notified() => {
                tracing::warn!("redis has become a replica, the connection is made anew");
            }
        }
        let _ = client.force_reconnection().await;
        // Whoever is behind the address now gets some time to become a master.
        sleep(RESTART).await;
    }
}
