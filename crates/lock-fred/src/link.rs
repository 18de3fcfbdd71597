//! One connection to the server: kept up, known to be down when it is down, and replaced when it went dead silently.

use crate::{
    error::{not_connected, translate},
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
use tokio::{task::JoinHandle, time::sleep};

/// How long a request waits for a connection that is being made anew, before it fails as *not sent*.
const GRACE: Duration = Duration::from_millis(250);
/// Between two starts of a client that gave up.
const RESTART: Duration = Duration::from_secs(1);

/// A client of fred and the tasks that carry it; they end when this is dropped.
pub(crate) struct Link {
    pub(crate) client: Client,
    pulse: Arc<Pulse>,
    tasks: Vec<JoinHandle<()>>,
}

impl Link {
    /// Connects. Everything that carries the connection runs on the current runtime.
    pub(crate) async fn open(builder: &Builder) -> Result<Self, Error> {
        let client = builder.build()?;
        // What is dropped before it is open leaves nothing running.
        let mut link = Self { client, pulse: Arc::default(), tasks: Vec::new() };
        let carried = Carried(link.client.init().await?);
        link.tasks.push(tokio::spawn(keep_up(link.client.clone(), carried)));
        link.tasks.push(tokio::spawn(replace_dead(link.client.clone(), link.pulse.clone())));
        Ok(link)
    }

    /// Runs one request, which is sent at most once. Without a connection it is not sent.
    pub(crate) async fn ask<T>(
        &self,
        what: &str,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, BackendError> {
        if !self.client.is_connected() {
            self.wait_for_connection(what).await?;
        }
        let sent = self.pulse.sent();
        let answer = request.await;
        // A refusal is an answer as well; only fred's own impatience is none.
        if !matches!(&answer, Err(error) if *error.kind() == ErrorKind::Timeout) {
            sent.heard();
        }
        answer.map_err(|error| translate(what, &error))
    }

    /// fred would queue the request and send it whenever a connection comes, even if nobody waits any more.
    async fn wait_for_connection(&self, what: &str) -> Result<(), BackendError> {
        let mut reconnects = self.client.reconnect_rx();
        if self.client.is_connected() {
            return Ok(());
        }
        match tokio::time::timeout(GRACE, reconnects.recv()).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(not_connected(what)),
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

/// fred reconnects by itself, except after errors that it takes for final, such as a refused password. A server's
/// password can be mended while we run.
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

async fn replace_dead(client: Client, pulse: Arc<Pulse>) {
    loop {
        pulse.died().await;
        tracing::warn!("redis has not answered for {SILENCE:?}, the connection is made anew");
        let _ = client.force_reconnection().await;
    }
}
