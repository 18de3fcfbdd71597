//! The task behind the page. It queries the servers five times a second, executes the actions of the page, and publishes
//! snapshots. Its load generator places orders for single units of the hot products.

use super::{
    routes::Publisher,
    snapshot::{LoadInfo, ServerInfo, ServerState, Snapshot},
    view::{Moment, View},
};
use crate::{
    audit::stock_counts,
    balancer::Servers,
    fleet::{Fleet, ShopState, ShopStatus},
    http_client::HttpClient,
    load::{self, Extent, LoadPlan, OrderMix, Profile},
    server::Report,
    strategy::Strategy,
};
use bytes::Bytes;
use futures_util::future::join_all;
use http::{Method, header};
use http_body_util::Full;
use lock_inventory_demo::store::Store;
use serde_json::json;
use std::{
    collections::HashMap,
    net::SocketAddr,
    pin::pin,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::{
    sync::{mpsc, oneshot},
    task::{JoinHandle, JoinSet},
    time::{Instant, MissedTickBehavior, interval, timeout},
};

/// Time between two snapshots.
const TICK: Duration = Duration::from_millis(200);
/// Time limit for a server's report. The previous report of a slower server is reused.
const REPORT_WITHIN: Duration = Duration::from_millis(180);
/// Length of one part of the page's load. The outcomes of a part are discarded at its end, so they do not
/// accumulate.
const PART: Duration = Duration::from_secs(30);
/// Time limit for a response to an order of the load generator.
const TIMEOUT: Duration = Duration::from_secs(10);

/// An action requested by the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Switches every server to this strategy.
    Strategy(String),
    /// Starts the load generator.
    StartLoad,
    /// Stops the load generator.
    StopLoad,
    /// Executes an action on one server.
    Server(String, ServerAction),
}

/// An action on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerAction {
    /// Stops its process with SIGSTOP.
    Pause,
    /// Ends its process with SIGKILL.
    Kill,
    /// Resumes a paused process, or starts a new one for a dead server.
    Revive,
}

/// An error that prevented an action.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ActionError {
    /// No server has this name.
    #[error("unknown server {0}: reload the page")]
    NoSuchServer(String),
    /// The page does not offer a strategy with this name.
    #[error("{0}")]
    Strategy(String),
    /// The server's current state does not allow the action, or the server did not start.
    #[error("{0}")]
    Server(String),
    /// The dashboard is shutting down.
    #[error("the dashboard is shutting down: restart it, then repeat the action")]
    Closed,
}

/// An action to execute, with a channel for its result.
#[derive(Debug)]
pub struct Request {
    /// The action.
    pub action: Action,
    /// Channel for the result.
    pub reply: oneshot::Sender<Result<(), ActionError>>,
}

/// A sender of actions to the task that executes them. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Actions(mpsc::Sender<Request>);

impl Actions {
    /// Creates the sender, and the receiver for the task.
    #[must_use]
    pub fn channel() -> (Self, mpsc::Receiver<Request>) {
        let (sender, receiver) = mpsc::channel(16);
        (Self(sender), receiver)
    }

    /// Requests `action` and waits for its result.
    ///
    /// # Errors
    /// Returns [`ActionError`] if the action was not executed.
    ///
    /// # Cancel safety
    /// Dropping this does not cancel an action that was already sent.
    pub async fn take(&self, action: Action) -> Result<(), ActionError> {
        let (reply, result) = oneshot::channel();
        self.0.send(Request { action, reply }).await.map_err(|_| ActionError::Closed)?;
        result.await.unwrap_or(Err(ActionError::Closed))
    }
}

type Client = HttpClient<Full<Bytes>>;

/// The servers and the parts that act on them.
#[derive(Debug)]
pub(super) struct Supervisor {
    pub(super) fleet: Arc<Fleet>,
    pub(super) servers: Servers,
    pub(super) view: View,
    pub(super) load: PageLoad,
    pub(super) clients: HashMap<SocketAddr, Arc<Client>>,
    /// The servers' database.
    pub(super) store: Store,
}

impl Supervisor {
    /// Runs until `stop` completes, then ends the pages' streams and returns the fleet.
    pub(super) async fn run(
        mut self,
        publisher: Publisher,
        mut requests: mpsc::Receiver<Request>,
        stop: impl Future<Output = ()>,
    ) -> Arc<Fleet> {
        let mut stop = pin!(stop);
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Starting a server takes time. Update the page in the meantime.
        let mut starting = JoinSet::new();
        loop {
            tokio::select! {
                _ = ticks.tick() => self.look().await,
                Some(request) = requests.recv() => self.act(request, &mut starting),
                Some(_) = starting.join_next() => {}
                () = &mut stop => break,
            }
            publisher.publish(&self.snapshot());
        }
        starting.shutdown().await;
        self.fleet
    }

    /// Requests a report from every running server, and switches servers that do not use the current strategy.
    pub(super) async fn look(&mut self) {
        let running: Vec<_> =
            self.fleet.statuses().into_iter().filter(|status| status.state == ShopState::Running).collect();
        self.clients.retain(|address, _| running.iter().any(|status| status.address == *address));
        let asked = running.into_iter().map(|ShopStatus { name, address, .. }| {
            let client = self.clients.entry(address).or_insert_with(|| Arc::new(HttpClient::new(address)));
            let (client, strategy) = (Arc::clone(client), self.view.strategy());
            async move {
                let report = timeout(REPORT_WITHIN, report(&client)).await.ok().flatten()?;
                if report.strategy != strategy {
                    let _ = timeout(REPORT_WITHIN, switch(&client, strategy)).await;
                }
                Some((name, report))
            }
        });
        let reports: Vec<_> = join_all(asked).await;
        // After the reports; see `View::record`. A server that was paused in a transaction does not block a reader.
        let stock = timeout(REPORT_WITHIN, stock_counts(&self.store)).await.ok().and_then(Result::ok);
        self.view.record(reports.into_iter().flatten(), stock);
    }

    fn act(&mut self, Request { action, reply }: Request, starting: &mut JoinSet<()>) {
        let result = match action {
            Action::Strategy(name) => match name.parse().ok().filter(|known| self.view.offers(*known)) {
                Some(strategy) => {
                    self.view.set_strategy(strategy);
                    Ok(())
                }
                None => Err(ActionError::Strategy(format!(
                    "cannot switch to the strategy {name}: choose one from the list"
                ))),
            },
            Action::StartLoad => {
                self.load.start();
                Ok(())
            }
            Action::StopLoad => {
                self.load.stop();
                Ok(())
            }
            Action::Server(name, action) => {
                let Some(index) = self.fleet.statuses().iter().position(|status| status.name == name) else {
                    let _ = reply.send(Err(ActionError::NoSuchServer(name)));
                    return;
                };
                match (action, self.fleet.status(index).state) {
                    (ServerAction::Pause, ShopState::Ended) => {
                        Err(ActionError::Server(format!("{name} is dead: revive it first")))
                    }
                    (ServerAction::Pause, _) => {
                        self.fleet.pause(index);
                        Ok(())
                    }
                    (ServerAction::Kill, _) => {
                        self.fleet.kill(index);
                        Ok(())
                    }
                    (ServerAction::Revive, ShopState::Ended) => {
                        let fleet = Arc::clone(&self.fleet);
                        starting.spawn(async move {
                            let revived = fleet.revive(index).await;
                            let _ =
                                reply.send(revived.map_err(|error| ActionError::Server(error.to_string())));
                        });
                        return;
                    }
                    (ServerAction::Revive, _) => {
                        self.fleet.resume(index);
                        Ok(())
                    }
                }
            }
        };
        // The receiver is gone if the page was closed.
        let _ = reply.send(result);
    }

    /// Returns the current snapshot.
    pub(super) fn snapshot(&mut self) -> Snapshot {
        let moment = self.moment();
        self.view.snapshot(moment)
    }

    /// Returns the data that does not come from the servers' reports.
    fn moment(&self) -> Moment {
        let shares = self.servers.shares();
        let all: u64 = shares.iter().map(|share| share.requests).sum();
        let servers = self.fleet.statuses().into_iter().map(|status| {
            let requests =
                shares.iter().find(|share| share.name == status.name).map_or(0, |share| share.requests);
            let state = match status.state {
                ShopState::Running => ServerState::Running,
                ShopState::Stopped => ServerState::Paused,
                ShopState::Ended => ServerState::Dead,
            };
            ServerInfo {
                name: status.name,
                state,
                pid: (state != ServerState::Dead).then_some(status.pid),
                requests,
                share: if all == 0 { 0.0 } else { requests as f64 / all as f64 },
            }
        });
        Moment { at: now(), servers: servers.collect(), load: self.load.info() }
    }
}

async fn report(client: &Client) -> Option<Report> {
    let body = send(client, Method::GET, "/state", Bytes::new()).await?;
    serde_json::from_slice(&body).ok()
}

async fn switch(client: &Client, strategy: Strategy) -> Option<Bytes> {
    send(client, Method::POST, "/control/strategy", json!({ "strategy": strategy }).to_string().into()).await
}

async fn send(client: &Client, method: Method, path: &str, body: Bytes) -> Option<Bytes> {
    let request =
        http::Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, "application/json");
    client.exchange(request.body(Full::new(body)).ok()?).await.ok()
}

/// Returns the time in Unix milliseconds.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The page's load generator. Dropping it stops the load.
#[derive(Debug)]
pub(super) struct PageLoad {
    target: SocketAddr,
    per_second: u32,
    skus: Vec<String>,
    /// Prefix for all idempotency keys.
    keys: String,
    started: u64,
    task: Option<JoinHandle<()>>,
}

impl PageLoad {
    pub(super) fn new(target: SocketAddr, per_second: u32, skus: Vec<String>, keys: String) -> Self {
        Self { target, per_second, skus, keys, started: 0, task: None }
    }

    /// Starts the load if it is stopped.
    pub(super) fn start(&mut self) {
        if self.task.is_some() {
            return;
        }
        self.started += 1;
        let keys = format!("{}-{}", self.keys, self.started);
        let (target, per_second, skus) = (self.target, self.per_second, self.skus.clone());
        self.task = Some(tokio::spawn(async move {
            for part in 0.. {
                let mix = OrderMix {
                    skus: skus.clone(),
                    max_quantity: 1,
                    keys: format!("{keys}-{part}"),
                    seed: part,
                };
                let plan = LoadPlan {
                    target,
                    profile: Profile::Open { rate: per_second.into() },
                    extent: Extent::Time(PART),
                    mix,
                    timeout: TIMEOUT,
                    aborts: None,
                    journal: None,
                    zero: Instant::now(),
                };
                // Only writing a journal can fail, and this load has no journal.
                let _ = load::run(plan).await;
            }
        }));
    }

    /// Stops the load and abandons the orders in flight.
    pub(super) fn stop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }

    pub(super) fn info(&self) -> LoadInfo {
        LoadInfo { on: self.task.is_some(), per_second: self.per_second }
    }
}

impl Drop for PageLoad {
    fn drop(&mut self) {
        self.stop();
    }
}
