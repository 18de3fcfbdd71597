//! The task behind the page. It queries the servers five times a second, executes actions, and
//! publishes snapshots.

use super::{
    action::{Action, ActionError, Request, ServerAction},
    feed::Publisher,
    load::PageLoad,
    report::Report,
    snapshot::{ServerInfo, ServerState, Snapshot},
    view::{Moment, View},
};
use crate::{
    balancer::Servers,
    fleet::{Fleet, ShopState, ShopStatus},
    http_client::HttpClient,
    stock,
};
use bytes::Bytes;
use futures_util::future::join_all;
use http::{Method, header};
use http_body_util::{BodyExt, Full};
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
    sync::mpsc,
    task::JoinSet,
    time::{MissedTickBehavior, interval, timeout},
};

/// Time between two snapshots.
const TICK: Duration = Duration::from_millis(200);
/// Time limit for a server's report. The previous report of a slower server is reused.
const REPORT_WITHIN: Duration = Duration::from_millis(180);

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
            let (client, strategy) = (Arc::clone(client), self.view.strategy().to_owned());
            async move {
                let report = timeout(REPORT_WITHIN, report(&client)).await.ok().flatten()?;
                if report.strategy != strategy {
                    let _ = timeout(REPORT_WITHIN, switch(&client, &strategy)).await;
                }
                Some((name, report))
            }
        });
        let reports: Vec<_> = join_all(asked).await;
        // After the reports; see `View::record`. A server that was paused in a transaction does not block a reader.
        let stock_counts = timeout(REPORT_WITHIN, stock::read(&self.store)).await.ok().and_then(Result::ok);
        self.view.record(reports.into_iter().flatten(), stock_counts);
    }

    fn act(&mut self, Request { action, reply }: Request, starting: &mut JoinSet<()>) {
        let result = match action {
            Action::Strategy(name) if self.view.offers(&name) => {
                self.view.set_strategy(name);
                Ok(())
            }
            Action::Strategy(name) => Err(ActionError::Strategy(format!(
                "cannot switch to the strategy {name}: choose one from the list"
            ))),
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

async fn switch(client: &Client, strategy: &str) -> Option<Bytes> {
    send(client, Method::POST, "/control/strategy", json!({ "strategy": strategy }).to_string().into()).await
}

async fn send(client: &Client, method: Method, path: &str, body: Bytes) -> Option<Bytes> {
    let request =
        http::Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, "application/json");
    let response = client.send(request.body(Full::new(body)).ok()?).await.ok()?;
    Some(response.into_body().collect().await.ok()?.to_bytes())
}

/// Returns the time in Unix milliseconds.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
