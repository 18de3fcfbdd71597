//! Startup and ordered shutdown of the dashboard.

use super::{
    action::Actions,
    feed::Publisher,
    guard::Reach,
    load::PageLoad,
    place::{Place, PlaceError},
    routes::router,
    supervisor::{Supervisor, now},
    view::{Setting, View},
};
use crate::{
    balancer::{Balancer, Servers},
    catalogue::CatalogueError,
    fleet::{Fleet, FleetError},
    locks::LocksUrl,
    store::DatabaseUrl,
    strategy::Strategy,
};
use std::{
    collections::HashMap,
    io::{self, Write},
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};
use tokio::{net::TcpListener, sync::oneshot, time::timeout};

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
    /// Database; `None` for a SQLite file in a temporary directory.
    pub database: Option<DatabaseUrl>,
    /// Lock store; `None` for a private redis-server.
    pub locks: Option<LocksUrl>,
    /// Initial strategy.
    pub strategy: Strategy,
    /// CSV file with the products for an empty database; `None` for a selection of the built-in products.
    pub catalogue: Option<PathBuf>,
    /// Prefix for all lock names. If empty, the dashboard generates one for a temporary database.
    pub prefix: String,
    /// Stock below which a job restocks a product. For the built-in products, it is at
    /// least 400.
    pub restock_below: u32,
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
        view: View::new(setting, config.strategy.name().into()),
        load: PageLoad::new(balancer.address(), config.orders_per_second, skus, format!("page-{since}")),
        clients: HashMap::new(),
    };
    supervisor.look().await;
    let (publisher, feed) = Publisher::new(&supervisor.snapshot());
    let (actions, requests) = Actions::channel();
    let (stopping, stopped) = oneshot::channel::<()>();
    let app = router(feed, actions, Reach::of(address.ip()));
    let serving = axum::serve(listener, app).with_graceful_shutdown(async move { drop(stopped.await) });
    let serving = tokio::spawn(serving.into_future());

    announce(out, address, balancer.address(), &place).map_err(DashboardError::Announce)?;
    // When the supervisor ends, it drops the publisher, which ends the pages' streams.
    let fleet = supervisor.run(publisher, requests, stop).await;
    drop(stopping);
    let _ = timeout(PAGES_END_WITHIN, serving).await;
    drop(balancer);
    if let Some(fleet) = Arc::into_inner(fleet) {
        fleet.stop().await?;
    }
    Ok(())
}

fn announce(out: &mut impl Write, page: SocketAddr, shops: SocketAddr, place: &Place) -> io::Result<()> {
    if let Some(note) = place.note {
        writeln!(out, "{note}")?;
    }
    let plural = if place.servers == 1 { "server" } else { "servers" };
    writeln!(out, "shop API   http://{shops}/skus  ({} {plural} behind a balancer; {place})", place.servers)?;
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
    /// The catalogue is unusable.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
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
