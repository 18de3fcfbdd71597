//! The main job: two sales of one catalogue to the same buyers, without and with the lock. It needs no server: the four
//! shops of a sale have a lock factory each on one store in memory, and serve their buyers in this process.

use crate::BoxError;
use axum::{
    Router,
    body::Body,
    http::{Request, StatusCode},
};
use distlock::{LockFactory, MemoryBackend, tower::DetachedTasks};
use lock_inventory_demo::{
    Shop, Terms,
    audit::{Audit, Books, Breach},
    domain::{Cents, Sku, catalogue},
    naive,
    payments::Provider,
    router,
    store::Store,
};
use std::{
    env, fs,
    path::Path,
    process::{self, ExitCode},
    sync::Arc,
    time::Duration,
};
use tokio::task::JoinSet;
use tower::ServiceExt;

const SHOPS: usize = 4;
const BUYERS: usize = 200;
const ORDERS_OF_A_BUYER: usize = 10;
/// The time that the payment provider takes to answer. Meanwhile, others read the stock.
const PAYMENT: Duration = Duration::from_millis(3);
/// The maximum number of times that a buyer sends an order that has no outcome yet.
const REPEATS: usize = 100;

/// The result of a sale.
struct Sale {
    audit: Audit,
    refused: usize,
}

/// Runs both sales and prints what came of them. Succeeds if the first oversold, and the second kept its books.
pub(crate) async fn run() -> Result<ExitCode, BoxError> {
    let folder = env::temp_dir().join(format!("lock-inventory-demo-{}", process::id()));
    fs::create_dir_all(&folder)?;
    println!(
        "Two sales of {} products: {BUYERS} buyers send {} orders for 1 to 3 units to {SHOPS} shops.",
        catalogue().len(),
        BUYERS * ORDERS_OF_A_BUYER
    );
    let without = sell(&folder, "without", naive::router).await;
    let with = sell(&folder, "with", router).await;
    fs::remove_dir_all(&folder)?;
    let (without, with) = (without?, with?);
    print(&without, &with);
    let oversold = without.audit.oversold > 0;
    let kept = with.audit.breaches.is_empty() && with.audit.sold > 0;
    match (oversold, kept) {
        (true, true) => println!(
            "Without the lock, {} units were sold that do not exist. With it, none.",
            without.audit.oversold
        ),
        (false, _) => println!("The sale without the lock did not oversell, so this run shows nothing."),
        (true, false) => println!("The sale with the lock broke rules:\n{}", with.audit),
    }
    Ok(if oversold && kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn sell(folder: &Path, name: &str, routes: fn(&Shop) -> Router) -> Result<Sale, BoxError> {
    let url = |table: &str| format!("sqlite://{}/{table}-{name}.sqlite", folder.display());
    let store = Store::open(&url("shop")).await?;
    store.set_up(&catalogue()).await?;
    let payments = Arc::new(Provider::open(&url("payments"), PAYMENT).await?);
    let backend = MemoryBackend::new();
    let shop = || Shop {
        locks: LockFactory::new(backend.clone()),
        store: store.clone(),
        payments: payments.clone(),
        tasks: DetachedTasks::new(),
        terms: Terms::default(),
    };
    let shops: Vec<Shop> = (0..SHOPS).map(|_| shop()).collect();
    let mut buyers = JoinSet::new();
    for buyer in 0..BUYERS {
        buyers.spawn(buy(routes(&shops[buyer % SHOPS]), buyer));
    }
    let mut refused = 0;
    while let Some(buyer) = buyers.join_next().await {
        refused += buyer??;
    }
    for shop in &shops {
        shop.locks.shutdown().await;
    }
    let audit = Audit::of(&Books::read(&store, &*payments).await?);
    store.database().close().await;
    payments.database().close().await;
    Ok(Sale { audit, refused })
}

/// Sends the orders of one buyer. Returns how many were refused.
async fn buy(shop: Router, buyer: usize) -> Result<usize, BoxError> {
    let skus: Vec<Sku> = catalogue().into_iter().map(|product| product.sku).collect();
    let mut refused = 0;
    for number in 0..ORDERS_OF_A_BUYER {
        let sku = &skus[(buyer + number) % skus.len()];
        let quantity = 1 + (buyer / skus.len() + number) % 3;
        let order = || {
            Request::post(format!("/products/{sku}/orders"))
                .header("x-customer", format!("buyer-{buyer}"))
                .header("idempotency-key", format!("order-{number}"))
                .header("content-type", "application/json")
                .body(Body::from(format!(r#"{{"quantity":{quantity}}}"#)))
        };
        let mut status = StatusCode::SERVICE_UNAVAILABLE;
        for _ in 0..REPEATS {
            status = shop.clone().oneshot(order()?).await?.status();
            if status != StatusCode::SERVICE_UNAVAILABLE {
                break;
            }
        }
        match status {
            StatusCode::CREATED | StatusCode::OK => {}
            StatusCode::CONFLICT => refused += 1,
            other => return Err(format!("an order was answered with {other}").into()),
        }
    }
    Ok(refused)
}

fn print(without: &Sale, with: &Sale) {
    let row = |what: &str, value: &dyn Fn(&Sale) -> String| {
        println!("{what:44}{:>14}{:>14}", value(without), value(with));
    };
    let cents = |cents: i64| Cents::new(cents).to_string();
    println!("\n{:44}{:>14}{:>14}", "", "without lock", "with lock");
    row("units for sale", &|sale| sale.audit.supplied.to_string());
    row("units sold", &|sale| sale.audit.sold.to_string());
    row("units sold that do not exist", &|sale| sale.audit.oversold.to_string());
    row("units sold, but still counted as stock", &|sale| lost(&sale.audit).to_string());
    row("orders sold", &|sale| sale.audit.orders.to_string());
    row("orders refused as sold out", &|sale| sale.refused.to_string());
    row("charged", &|sale| cents(sale.audit.charged));
    row("charged for orders", &|sale| cents(sale.audit.ordered));
    row("refunded", &|sale| cents(sale.audit.refunded));
    row("rules broken", &|sale| sale.audit.breaches.len().to_string());
    println!();
}

/// Counts the units of lost updates: two orders that read the same stock, of which only the second is subtracted.
fn lost(audit: &Audit) -> i64 {
    let units = |breach: &Breach| match breach {
        Breach::Stock { stock, expected, .. } => stock - expected,
        _ => 0,
    };
    audit.breaches.iter().map(units).sum()
}
