//! The program: the two sales (without arguments), one shop over HTTP (`serve`), and the audit (`audit`).

mod sale;
mod settings;

use distlock::{
    LockFactory, LockOptions, MemoryBackend,
    cron::{MemoryLedger, RunLedger, Scheduler},
    ledger::LedgerConnector as _,
    tower::DetachedTasks,
};
use lock_inventory_demo::{
    Shop, Terms,
    audit::{Audit, Books},
    domain::catalogue,
    jobs, naive,
    payments::Provider,
    problem::causes,
    router,
    server::{self, Listeners},
    store::Store,
};
use settings::Settings;
use std::{
    env,
    error::Error,
    io,
    net::SocketAddr,
    process::{self, ExitCode},
    sync::Arc,
    time::Duration,
};
use tokio::net::TcpListener;

/// An error of any part of the program.
type BoxError = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    let done = match env::args().nth(1).as_deref() {
        None => sale::run().await,
        Some("serve") => serve().await,
        Some("audit") => audit().await,
        Some(_) => {
            Err("usage: lock-inventory-demo [serve | audit]; without an argument, it runs two sales".into())
        }
    };
    done.unwrap_or_else(|error| {
        eprintln!("{}", causes(&*error));
        ExitCode::FAILURE
    })
}

/// One shop, until SIGTERM or Ctrl-C.
async fn serve() -> Result<ExitCode, BoxError> {
    tracing_subscriber::fmt().with_writer(io::stderr).init();
    let stop = distlock::shutdown_signal()?;
    let settings = Settings::from_env()?;
    let store = Store::open(&settings.database).await?;
    if store.offers().await?.is_empty() {
        store.set_up(&catalogue()).await?;
    }
    let provider = Provider::open(&settings.payments, settings.payment_delay).await?;
    let (backend, ledger) = connect(&settings.locks).await?;
    let options = LockOptions::new().lease(settings.lease);
    let locks = LockFactory::builder(backend).prefix(&settings.prefix).options(options).build()?;
    let terms = Terms { settle_after: settings.settle_after, ..Terms::default() };
    let payments = Arc::new(provider.clone());
    let shop = Shop { locks, store, payments, tasks: DetachedTasks::new(), terms };
    // A dead shop leads, and its runs count as open, for this long. A tenth of it limits each request to the ledger.
    let lease = settings.lease.max(Duration::from_secs(5));
    let builder = Scheduler::builder(shop.locks.clone(), ledger).group(&settings.prefix).node(&settings.name);
    let builder = builder.leadership_lease(lease).run_lease(lease).shutdown_grace(Duration::from_secs(5));
    let cron = jobs::schedule(&shop, builder)?;
    let customers = if settings.naive { naive::router(&shop) } else { router(&shop) };
    let listeners = Listeners {
        customers: bind("SHOP_LISTEN", settings.listen).await?,
        operators: bind("SHOP_CONSOLE", settings.console).await?,
    };
    let ready = serde_json::json!({
        "listening": listeners.customers.local_addr()?,
        "console": listeners.operators.local_addr()?,
        "pid": process::id(),
        "shop": settings.name,
    });
    println!("{ready}");
    server::serve(shop, customers, cron, listeners, stop).await?;
    provider.database().close().await;
    Ok(ExitCode::SUCCESS)
}

async fn bind(name: &str, address: SocketAddr) -> Result<TcpListener, BoxError> {
    TcpListener::bind(address).await.map_err(|error| format!("{name}, {address}: {error}").into())
}

/// Connects the store of locks and jobs. Redis is connected in the background, so that the shop starts while it is down;
/// its readiness says so until Redis answers.
async fn connect(url: &str) -> Result<(distlock::Store, Arc<dyn RunLedger>), BoxError> {
    match url.split_once(':').map_or(url, |(scheme, _)| scheme) {
        "memory" => Ok(in_memory()),
        "sqlite" => Ok(distlock::sql::Sqlite.connect_with_ledger(url).await?),
        #[cfg(feature = "servers")]
        "postgres" | "postgresql" => Ok(distlock::sql::Postgres.connect_with_ledger(url).await?),
        #[cfg(feature = "servers")]
        _ => Ok(distlock::fred::Redis.connect_with_ledger_lazy(url)?),
        #[cfg(not(feature = "servers"))]
        _ => Err("SHOP_LOCKS: Redis and PostgreSQL need the feature `servers`".into()),
    }
}

/// Returns the stores of a single process.
fn in_memory() -> (distlock::Store, Arc<dyn RunLedger>) {
    (MemoryBackend::new().into(), Arc::new(MemoryLedger::new()))
}

/// Audits the books of the databases that `serve` uses.
async fn audit() -> Result<ExitCode, BoxError> {
    let settings = Settings::from_env()?;
    let store = Store::open(&settings.database).await?;
    if store.offers().await?.is_empty() {
        return Err(
            "there is no shop: run this where `serve` ran, or set SHOP_DATABASE and SHOP_PAYMENTS".into()
        );
    }
    let provider = Provider::open(&settings.payments, Duration::ZERO).await?;
    let audit = Audit::of(&Books::read(&store, &provider).await?);
    println!("{audit}");
    Ok(if audit.breaches.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
