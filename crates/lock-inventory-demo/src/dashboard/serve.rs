//! The dashboard as a program: what it starts, and the order in which that ends.

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

/// The time that pages have to read their last bytes.
const PAGES_END_WITHIN: Duration = Duration::from_secs(2);

/// The settings of a dashboard.
#[derive(Debug, Clone)]
pub struct Config {
    /// The address of the page. Port 0 chooses a free one.
    pub listen: SocketAddr,
    /// Servers to start, where they can share a lock.
    pub servers: usize,
    /// Orders per second of the page's load.
    pub orders_per_second: u32,
    /// The database; a file of SQLite in a temporary directory if there is none.
    pub database: Option<DatabaseUrl>,
    /// The locks; a private redis-server if there is none.
    pub locks: Option<LocksUrl>,
    /// The strategy at first.
    pub strategy: Strategy,
    /// The products of an empty database; some of the built-in ones if there is none.
    pub catalogue: Option<PathBuf>,
    /// The prefix of the names of all locks. A temporary database has one of its own.
    pub prefix: String,
    /// The stock below which a job fills a product up; the built-in products are filled up also with 0.
    pub restock_below: u32,
    /// Further options of the servers, by name.
    pub options: Vec<(&'static str, String)>,
}

/// Starts the servers, prints the address of the page, and serves until `stop` completes.
///
/// # Errors
/// [`DashboardError`] that names the remedy.
///
/// # Cancel safety
/// Dropping this ends the servers as [`Fleet`] says.
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
    // It drops the publisher when it ends, and with it the streams of the pages.
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
    writeln!(out, "shop       http://{shops}/  ({} {plural} behind a balancer; {place})", place.servers)?;
    writeln!(out, "dashboard  http://{page}/")?;
    out.flush()
}

/// The dashboard could not be started, or did not end in order.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DashboardError {
    /// The stores could not be prepared.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The catalogue is not usable.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// A server did not start or end.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// The address is not free.
    #[error("could not listen on {listen}: choose another address, or port 0 for a free one")]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The balancer could not listen.
    #[error("the balancer could not listen on a free port")]
    Balancer(#[source] io::Error),
    /// Nobody reads the output.
    #[error("could not write the address of the page")]
    Announce(#[source] io::Error),
}
