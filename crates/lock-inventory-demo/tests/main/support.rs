//! Databases and shops for the tests.

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, Request, StatusCode},
};
use lock_core::{FencingToken, LockOptions};
use lock_inventory_demo::{
    domain::{Catalogue, Cents, Order, Product, Quantity, Sku},
    fault::Faults,
    fleet::PostgresServer,
    http::{Admin, router},
    locks::Locks,
    shop::{Shop, ShopConfig},
    store::{DatabaseUrl, Entry, Store},
    strategy::Strategy,
};
use serde_json::{Value, json};
use sqlx::{AnyPool, ConnectOptions, Connection, postgres::PgConnectOptions};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tempfile::TempDir;
use tokio::sync::OnceCell;
use tower::ServiceExt;

/// A separate database with a stock.
pub(crate) struct Shelf {
    pub(crate) store: Store,
    pub(crate) url: DatabaseUrl,
    _directory: Option<TempDir>,
}

/// The PostgreSQL server shared by all tests in this process. It ends with the process.
static POSTGRES: OnceCell<PostgresServer> = OnceCell::const_new();
static DATABASES: AtomicU32 = AtomicU32::new(0);

impl Shelf {
    pub(crate) async fn sqlite(catalogue: &Catalogue) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let url = DatabaseUrl::sqlite(&directory.path().join("shop.sqlite")).unwrap();
        Self::filled(url, Some(directory), catalogue).await
    }

    pub(crate) async fn postgres(catalogue: &Catalogue) -> Self {
        Self::filled(empty_postgres().await, None, catalogue).await
    }

    /// Creates the same stock on SQLite and on PostgreSQL.
    pub(crate) async fn both(catalogue: &Catalogue) -> [Self; 2] {
        [Self::sqlite(catalogue).await, Self::postgres(catalogue).await]
    }

    async fn filled(url: DatabaseUrl, directory: Option<TempDir>, catalogue: &Catalogue) -> Self {
        let store = Store::open(&url).await.unwrap();
        store.set_up(catalogue).await.unwrap();
        Self { store, url, _directory: directory }
    }

    /// Returns the counter of `P-0`.
    pub(crate) async fn stock(&self) -> i64 {
        self.store.product(&sku(0)).await.unwrap().stock
    }

    /// Returns the keys in the ledger.
    pub(crate) async fn keys(&self) -> Vec<String> {
        self.store.books().await.unwrap().ledger.into_iter().map(|row| row.order).collect()
    }

    /// Corrupts the database with a statement.
    pub(crate) async fn corrupt(&self, sql: &'static str) {
        let pool = AnyPool::connect(self.url.reveal()).await.unwrap();
        let done = sqlx::query(sql).execute(&pool).await.unwrap();
        assert!(done.rows_affected() > 0, "`{sql}` changed nothing");
        pool.close().await;
    }
}

/// Creates an empty database on the server of this process.
pub(crate) async fn empty_postgres() -> DatabaseUrl {
    let server = POSTGRES.get_or_init(async || PostgresServer::start().await.unwrap()).await;
    let name = format!("test_{}", DATABASES.fetch_add(1, Ordering::Relaxed));
    let mut admin = server.url().parse::<PgConnectOptions>().unwrap().connect().await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!("create database {name}"))).execute(&mut admin).await.unwrap();
    admin.close().await.unwrap();
    let url = server.url();
    let (server, _) = url.rsplit_once('/').unwrap();
    format!("{server}/{name}").parse().unwrap()
}

/// Returns this many products, `P-0` first, with `stock` units each for 2.50.
pub(crate) fn catalogue(products: u32, stock: u32) -> Catalogue {
    let product = |number| Product {
        sku: sku(number),
        title: format!("product {number}"),
        category: "products".into(),
        price: Cents::new(250),
        stock: Quantity::new(stock),
    };
    Catalogue::new((0..products).map(product).collect()).unwrap()
}

pub(crate) fn sku(number: u32) -> Sku {
    Sku::parse(&format!("P-{number}")).unwrap()
}

/// Returns an order for one unit of `P-0`.
pub(crate) fn order(key: &str) -> Order {
    Order { key: key.parse().unwrap(), sku: sku(0), quantity: Quantity::new(1), cents: 250 }
}

pub(crate) fn entry(order: &Order, token: Option<u64>) -> Entry<'_> {
    Entry { order, shop: "shop", token: token.map(FencingToken::new) }
}

pub(crate) fn pieces(count: u32) -> Quantity {
    Quantity::new(count)
}

/// Returns settings for a shop whose requests wait long enough for every test.
pub(crate) fn config(strategy: Strategy) -> ShopConfig {
    ShopConfig { strategy, wait: Duration::from_secs(60), ..ShopConfig::default() }
}

pub(crate) async fn shop(shelf: &Shelf, locks: &Locks, config: ShopConfig, faults: Faults) -> Arc<Shop> {
    Shop::open(config, shelf.store.clone(), locks.clone(), None, faults).await.unwrap()
}

/// Opens a shop with this strategy and separate locks.
pub(crate) async fn lone_shop(shelf: &Shelf, strategy: Strategy) -> Arc<Shop> {
    shop(shelf, &Locks::in_memory(), config(strategy), Faults::default()).await
}

/// Returns options for a short lease without renewal, as in a paused process.
pub(crate) fn short_lease() -> LockOptions {
    LockOptions::new().fixed_lease(Duration::from_millis(100))
}

/// The routes of a shop, called without a network.
pub(crate) struct Client(pub(crate) Router);

/// The response to a request.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// Returns the reason of an error response.
    pub(crate) fn reason(&self) -> String {
        assert_eq!(self.headers["content-type"], "application/problem+json", "{self:?}");
        let json = self.json();
        assert_eq!(json["status"], self.status.as_u16());
        json["reason"].as_str().unwrap().to_owned()
    }
}

impl Client {
    pub(crate) fn of(shop: &Arc<Shop>) -> Self {
        Self(router(shop.clone(), Admin::Open))
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Reply {
        let response = self.0.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let text = String::from_utf8(to_bytes(body, usize::MAX).await.unwrap().to_vec()).unwrap();
        Reply { status: head.status, headers: head.headers, text }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(Request::get(path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Reply {
        let request = Request::post(path).header("content-type", "application/json");
        self.send(request.body(Body::from(body.to_string())).unwrap()).await
    }

    /// Orders units of `P-0`.
    pub(crate) async fn order(&self, key: &str, quantity: u32) -> Reply {
        self.send(order_request("P-0", key, quantity)).await
    }
}

pub(crate) fn order_request(sku: &str, key: &str, quantity: u32) -> Request<Body> {
    Request::post(format!("/skus/{sku}/orders"))
        .header("idempotency-key", key)
        .header("content-type", "application/json")
        .body(Body::from(json!({ "quantity": quantity }).to_string()))
        .unwrap()
}
