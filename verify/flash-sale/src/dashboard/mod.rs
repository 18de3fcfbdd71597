//! The dashboard, a page that shows and controls the servers, the stock and the locks.
//!
//! The page is a single embedded HTML file and contacts no other host. `GET /events` sends
//! snapshots as server-sent events. Actions are `POST` requests with a JSON body. Actions from
//! other origins are rejected. This file starts the parts, and shuts them down in order.

mod place;
mod routes;
mod snapshot;
mod supervisor;
mod view;

pub use crate::server::JobInfo;
pub use place::PlaceError;
pub use routes::{Feed, Publisher, Reach, router};
pub use snapshot::{
    LoadInfo, LogEntry, LogKind, ProductInfo, ServerInfo, ServerState, Snapshot, StrategyInfo, Totals,
};
pub use supervisor::{Action, ActionError, Actions, Request, ServerAction};

use crate::{
    addresses::{Databases, LocksUrl},
    balancer::{Balancer, Servers},
    fleet::{Fleet, FleetError},
    strategy::Strategy,
};
use place::Place;
use std::{
    collections::HashMap,
    io::{self, Write},
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use supervisor::{PageLoad, Supervisor, now};
use tokio::{net::TcpListener, sync::oneshot, time::timeout};
use view::{Setting, View};

/// Time limit for the streams of open pages to end.
const PAGES_END_WITHIN: Duration = Duration::from_secs(2);

/// Settings for a dashboard.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address of the page. Port 0 selects a free port.
    pub listen: SocketAddr,
    /// Number of servers to start. Without Redis, only one is started.
    pub servers: usize,
    /// Rate of the load generator, in orders per second.
    pub orders_per_second: u32,
    /// Databases; `None` for SQLite files in a temporary directory.
    pub databases: Option<Databases>,
    /// Lock store; `None` for a private redis-server.
    pub locks: Option<LocksUrl>,
    /// Initial strategy.
    pub strategy: Strategy,
    /// Prefix for all lock names. If empty, the dashboard generates one for a temporary database.
    pub prefix: String,
    /// Further options for the servers, by name.
    pub options: Vec<(&'static str, String)>,
}

/// Starts the servers, prints the page's address, and serves until `stop` completes.
///
/// # Errors
/// Returns [`DashboardError`] with a remedy.
///
/// # Cancel safety
/// Dropping this stops the servers, as dropping a [`Fleet`] does.
pub async fn run(
    config: Config,
    out: &mut impl Write,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), DashboardError> {
    let listen = config.listen;
    let unlistened = |source| DashboardError::Listen { listen, source };
    let listener = TcpListener::bind(listen).await.map_err(unlistened)?;
    let address = listener.local_addr().map_err(unlistened)?;
    let place = Place::open(&config).await?;
    let servers = Servers::default();
    let commands = vec![place.command(&config)?; place.servers];
    let fleet = Arc::new(Fleet::start(commands, servers.clone(), place.directory()).await?);
    let balancer = Balancer::start((Ipv4Addr::LOCALHOST, 0).into(), servers.clone())
        .await
        .map_err(DashboardError::Balancer)?;

    let since = now();
    let skus = place.products.iter().map(|(sku, _)| sku.clone()).collect();
    let setting = Setting {
        since,
        place: place.to_string(),
        note: place.note.map(Into::into),
        strategies: place.strategies(),
        products: place.products.clone(),
    };
    let mut supervisor = Supervisor {
        fleet,
        servers,
        view: View::new(setting, config.strategy),
        load: PageLoad::new(balancer.address(), config.orders_per_second, skus, format!("page-{since}")),
        clients: HashMap::new(),
        store: place.store.clone(),
    };
    place.restock(&supervisor.fleet).await?;
    supervisor.look().await;
    let (publisher, feed) = Publisher::new(&supervisor.snapshot());
    let (actions, requests) = Actions::channel();
    let (stopping, stopped) = oneshot::channel::<()>();
    let app = router(feed, actions, Reach::of(address.ip()));
    let serving = axum::serve(listener, app).with_graceful_shutdown(async move { drop(stopped.await) });
    let serving = tokio::spawn(serving.into_future());

    let console = supervisor.fleet.status(0).operators;
    announce(out, address, balancer.address(), console, &place).map_err(DashboardError::Announce)?;
    // When the supervisor ends, it drops the publisher, which ends the pages' streams.
    let fleet = supervisor.run(publisher, requests, stop).await;
    drop(stopping);
    let _ = timeout(PAGES_END_WITHIN, serving).await;
    drop(balancer);
    if let Some(fleet) = Arc::into_inner(fleet) {
        fleet.stop().await?;
    }
    place.store.database().close().await;
    Ok(())
}

fn announce(
    out: &mut impl Write,
    page: SocketAddr,
    shops: SocketAddr,
    console: Option<SocketAddr>,
    place: &Place,
) -> io::Result<()> {
    if let Some(note) = place.note {
        writeln!(out, "{note}")?;
    }
    let plural = if place.servers == 1 { "server" } else { "servers" };
    writeln!(
        out,
        "shop API   http://{shops}/products  ({} {plural} behind a balancer; {place})",
        place.servers
    )?;
    if let Some(console) = console {
        writeln!(out, "jobs       http://{console}/jobs  (the shop's console of its jobs)")?;
    }
    writeln!(out, "dashboard  http://{page}/")?;
    out.flush()
}

/// An error while starting or shutting down the dashboard.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DashboardError {
    /// The stores could not be prepared.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// A server did not start or stop.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// The address could not be bound.
    #[error("could not listen on {listen}: choose another address, or port 0 for a free one")]
    Listen {
        /// Address to listen on.
        listen: SocketAddr,
        /// Underlying error.
        #[source]
        source: io::Error,
    },
    /// The balancer could not listen.
    #[error("the balancer could not listen on a free port")]
    Balancer(#[source] io::Error),
    /// The addresses could not be printed.
    #[error("could not print the dashboard's URL")]
    Announce(#[source] io::Error),
}
