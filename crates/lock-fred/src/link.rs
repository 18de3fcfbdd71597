//! One connection to the server: kept up, known to be down when it is down, and replaced when it is of no use.

use crate::{
    error::{connection_lost, not_connected, runtime_ended, translate},
    pauses::{Pauses, jittered},
    pulse::Pulse,
    secret::Secrets,
};
use fred::{
    clients::Client,
    error::{Error, ErrorKind},
    interfaces::{ClientLike, EventInterface},
    types::{Builder, ConnectHandle},
};
use lock_core::BackendError;
use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};
use tokio::{
    sync::{broadcast::error::RecvError, watch},
    task::JoinHandle,
    time::sleep,
};

/// How long a request waits for a connection that is being replaced.
const GRACE: Duration = Duration::from_millis(300);
/// After that time fred's own state is true again: it goes on saying "connected" until its first new attempt.
const SETTLED: Duration = Duration::from_millis(300);
/// Between two replacements of a connection. The address may lead to a replica for long; the requests of holders still get
/// an answer meanwhile, and notice a promotion in place.
const REPLACEMENTS: Pauses = Pauses::new(Duration::from_millis(200), Duration::from_secs(2));
/// Between two starts of a client that gave up, at most.
const RESTART: Duration = Duration::from_secs(1);
/// Between two signs of life of a connection: NATs and firewalls forget quiet connections, and tell neither side.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// A client of fred and the tasks that carry it; they end when this is dropped.
pub(crate) struct Link {
    pub(crate) client: Client,
    up: watch::Receiver<bool>,
    useless: Arc<Useless>,
    secrets: Secrets,
    tasks: Vec<JoinHandle<()>>,
}

/// How it shows that another connection is needed.
struct Useless {
    pulse: Pulse,
    /// Somebody says so: the server has become a replica, or answers are out of step.
    asked: watch::Sender<Option<Instant>>,
}

impl Link {
    /// Connects. Everything that carries the connection runs on the current runtime.
    pub(crate) async fn open(builder: &Builder, secrets: &Secrets) -> Result<Self, Error> {
        let (client, secrets) = (builder.build()?, secrets.clone());
        let is_up = Arc::new(watch::Sender::new(true));
        let useless = Arc::new(Useless { pulse: Pulse::default(), asked: watch::Sender::default() });
        let follow = follow(client.clone(), is_up.clone());
        // What is dropped before it is open leaves nothing running; fred's own `init` would.
        let carried = connect(&client).await.map_err(|error| secrets.hide(error))?;
        let tasks = vec![
            tokio::spawn(follow),
            tokio::spawn(keep_up(client.clone(), carried, secrets.clone())),
            tokio::spawn(replace(client.clone(), useless.clone(), is_up.clone())),
        ];
        Ok(Self { client, up: is_up.subscribe(), useless, secrets, tasks })
    }

    /// Asks for a sign of life now and then. The answer does not matter: silence is noticed, and the connection replaced.
    pub(crate) fn kept_alive(mut self) -> Self {
        let (client, up, useless) = (self.client.clone(), self.up.clone(), self.useless.clone());
        self.tasks.push(tokio::spawn(async move {
            loop {
                sleep(KEEP_ALIVE).await;
                if !*up.borrow() {
                    continue;
                }
                let sent = useless.pulse.sent();
                let answer = tokio::select! {
                    biased;
                    answer = client.ping::<()>(None) => answer,
                    never = sent.listen() => match never {},
                };
                if answer.is_ok() {
                    sent.heard();
                }
            }
        }));
        self
    }

    /// Asks for another connection.
    pub(crate) fn replace(&self) {
        self.useless.asked.send_replace(Some(Instant::now()));
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
        if self.tasks.iter().any(JoinHandle::is_finished) {
            return Err(runtime_ended(what));
        }
        if !self.is_up() {
            match tokio::time::timeout(GRACE, up.wait_for(|&up| up)).await {
                Ok(Ok(_)) => {}
                Ok(Err(_)) => return Err(runtime_ended(what)),
                Err(_) => return Err(not_connected(what)),
            }
        }
        let sent = self.useless.pulse.sent();
        let answer = tokio::select! {
            biased;
            answer = request => answer,
            never = sent.listen() => match never {},
            () = stays_down(up) => return Err(connection_lost(what)),
        };
        match &answer {
            // Only fred's own impatience is no answer.
            Err(error) if *error.kind() == ErrorKind::Timeout => {}
            _ => sent.heard(),
        }
        answer.map_err(|error| translate(what, &self.secrets.hide(error)))
    }
}

/// Returns when there has been no connection for a while.
async fn stays_down(mut up: watch::Receiver<bool>) {
    loop {
        if up.wait_for(|&up| !up).await.is_err() {
            // Nobody follows the connection any more.
            return;
        }
        match tokio::time::timeout(GRACE, up.wait_for(|&up| up)).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) | Err(_) => return,
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Makes the first connection. Dropping this, or what it gives, ends it.
async fn connect(client: &Client) -> Result<Carried, Error> {
    let mut made = pin!(client.wait_for_connect());
    // It listens from its first poll on; the news may come before a second one.
    let early = poll_fn(|context| Poll::Ready(made.as_mut().poll(context))).await;
    let carried = Carried(client.connect());
    match early {
        Poll::Ready(made) => made?,
        Poll::Pending => made.await?,
    }
    Ok(carried)
}

/// The task of fred that carries a connection; aborted with this.
struct Carried(ConnectHandle);

impl Drop for Carried {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Says whether there is a connection, from the moment on at which one is lost.
fn follow(client: Client, up: Arc<watch::Sender<bool>>) -> impl Future<Output = ()> {
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
            if up.send_if_modified(|up| std::mem::replace(up, is_up) != is_up) {
                match is_up {
                    true => tracing::info!("connected to redis again"),
                    false => tracing::warn!("a connection to redis was lost"),
                }
            }
        }
    }
}

/// fred reconnects by itself, except after errors that it takes for final. What is misconfigured can be mended while
/// we run.
async fn keep_up(client: Client, mut carried: Carried, secrets: Secrets) {
    loop {
        match (&mut carried.0).await {
            Ok(Ok(())) => tracing::debug!("redis connection ended, reconnecting"),
            Ok(Err(error)) => {
                let error = translate("connect", &secrets.hide(error));
                tracing::warn!(%error, "redis connection ended, reconnecting");
            }
            Err(error) if error.is_panic() => {
                tracing::error!("redis client panicked, reconnecting")
            }
            // The runtime ends.
            Err(_) => return,
        }
        sleep(jittered(RESTART)).await;
        carried = Carried(client.connect());
    }
}

async fn replace(client: Client, useless: Arc<Useless>, up: Arc<watch::Sender<bool>>) {
    let (mut dead, mut asked) = (useless.pulse.deaths(), useless.asked.subscribe());
    let (mut made, mut pauses) = (Instant::now(), REPLACEMENTS);
    loop {
        let reason = tokio::select! {
            _ = dead.changed() => "unresponsive",
            _ = asked.changed() => match *asked.borrow_and_update() {
                Some(at) if at > made => "read-only, or out of step",
                // That was said of the one before.
                _ => continue,
            },
        };
        if !pauses.belong_together(made.elapsed()) {
            pauses.start_over();
        }
        tracing::warn!(reason, "replacing a redis connection");
        // Requests wait for the new one, and are not queued behind it.
        up.send_replace(false);
        let _ = client.force_reconnection().await;
        made = Instant::now();
        dead.mark_unchanged();
        // The server behind the address gets some time to become a master.
        sleep(pauses.next()).await;
    }
}
