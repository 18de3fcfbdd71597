//! The servers and databases of one test.

use super::{Customer, Reply, Settings, Shop, until};
use lock_inventory_demo::{
    audit::{Audit, Books},
    domain::{Cents, OrderKey, Product},
    payments::Provider,
    store::Store,
};
use lock_testkit::{PostgresServer, RedisServer, TcpProxy};
use std::{collections::HashSet, time::Duration};
use tempfile::TempDir;

/// The price of each product.
pub(crate) const PRICE: i64 = 700;

/// The servers and databases of one test. The fields are dropped in this order.
pub(crate) struct World {
    pub(crate) redis: RedisServer,
    pub(crate) postgres: Option<PostgresServer>,
    urls: Urls,
    /// The store of locks and jobs.
    locks: String,
    store: Store,
    provider: Provider,
    directory: TempDir,
}

struct Urls {
    shop: String,
    payments: String,
}

impl World {
    /// Starts Redis, and creates SQLite databases with these products and their units.
    pub(crate) async fn sqlite(products: &[(&str, i64)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| format!("sqlite://{}", directory.path().join(name).display());
        let urls = Urls { shop: file("shop.sqlite"), payments: file("payments.sqlite") };
        Self::filled(None, urls, directory, products).await
    }

    /// Starts Redis and PostgreSQL, with two databases.
    pub(crate) async fn postgres(products: &[(&str, i64)]) -> Self {
        let server = PostgresServer::with_settings(&["fsync=on"]);
        let urls = Urls { shop: server.database("shop"), payments: server.database("payments") };
        Self::filled(Some(server), urls, tempfile::tempdir().unwrap(), products).await
    }

    async fn filled(
        postgres: Option<PostgresServer>,
        urls: Urls,
        directory: TempDir,
        products: &[(&str, i64)],
    ) -> Self {
        let store = Store::open(&urls.shop).await.unwrap();
        let provider = Provider::open(&urls.payments, Duration::ZERO).await.unwrap();
        let product = |(sku, units): &(&str, i64)| Product {
            sku: sku.parse().unwrap(),
            title: (*sku).to_owned(),
            price: Cents::new(PRICE),
            initial: *units,
        };
        store.set_up(&products.iter().map(product).collect::<Vec<_>>()).await.unwrap();
        let redis = RedisServer::start();
        let locks = redis.url();
        Self { redis, postgres, urls, locks, store, provider, directory }
    }

    /// Keeps the locks and jobs where the data is.
    pub(crate) fn without_redis(self) -> Self {
        let locks = match self.postgres {
            // What the shop's tables need not, locks do: a disk that keeps what was written.
            Some(_) => format!("{}?migrate=true", self.urls.shop),
            None => format!("sqlite:{}", self.directory.path().join("locks.db").display()),
        };
        self.redis.pause();
        Self { locks, ..self }
    }

    /// Starts a shop with the default settings.
    pub(crate) fn shop(&self, name: &str) -> Shop {
        self.shop_with(name, &Settings::default())
    }

    pub(crate) fn shop_with(&self, name: &str, settings: &Settings) -> Shop {
        self.start(name, settings, &self.urls.shop)
    }

    /// Starts a shop that reaches its PostgreSQL database through a proxy.
    pub(crate) fn shop_behind(&self, name: &str, proxy: &TcpProxy) -> Shop {
        let postgres = self.postgres.as_ref().unwrap().address();
        let database = self.urls.shop.replace(&postgres.to_string(), &proxy.address().to_string());
        assert_ne!(database, self.urls.shop);
        self.start(name, &Settings::default(), &database)
    }

    fn start(&self, name: &str, settings: &Settings, database: &str) -> Shop {
        let servers = [
            ("SHOP_DATABASE", database),
            ("SHOP_PAYMENTS", &self.urls.payments),
            ("SHOP_LOCKS", &self.locks),
        ];
        Shop::start(name, self.directory.path(), settings, &servers)
    }

    /// Suspends a shop on SQLite, but not while it has the write lock of a file that other shops need.
    pub(crate) async fn pause(&self, shop: &Shop) {
        let mut locks = Vec::new();
        for pool in [self.store.pool(), self.provider.database().pool()] {
            locks.push(pool.begin_with("begin immediate").await.unwrap());
        }
        shop.pause();
        for lock in locks {
            lock.rollback().await.unwrap();
        }
    }

    /// Returns the shop's tables.
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the name of an order or a reservation.
    pub(crate) fn key(&self, customer: &Customer, key: &str) -> OrderKey {
        OrderKey::new(&customer.name.parse().unwrap(), key).unwrap()
    }

    /// Waits until the provider has charged the customer, and before it has answered if the shop's provider is slow.
    pub(crate) async fn charged(&self, customer: &Customer, key: &str) {
        until("charge", async || self.payment(customer, key).await.as_deref() == Some("charged")).await;
    }

    /// Returns the state of a payment.
    pub(crate) async fn payment(&self, customer: &Customer, key: &str) -> Option<String> {
        let payment = sqlx::query_scalar("select state from charges where key = $1");
        let payment = payment.bind(format!("{}/{key}", customer.name));
        payment.fetch_optional(self.provider.database().pool()).await.unwrap()
    }

    /// Returns the charges that have no order yet, of any shop.
    pub(crate) async fn charged_without_order(&self) -> Vec<String> {
        let charged: Vec<String> = sqlx::query_scalar("select key from charges where state = 'charged'")
            .fetch_all(self.provider.database().pool())
            .await
            .unwrap();
        let ordered: Vec<String> =
            sqlx::query_scalar("select key from orders").fetch_all(self.store.pool()).await.unwrap();
        let ordered: HashSet<_> = ordered.iter().collect();
        charged.into_iter().filter(|key| !ordered.contains(key)).collect()
    }

    /// Returns the state of an intent.
    pub(crate) async fn intent(&self, customer: &Customer, key: &str) -> Option<String> {
        let intent = sqlx::query_scalar("select state from intents where key = $1");
        intent.bind(format!("{}/{key}", customer.name)).fetch_optional(self.store.pool()).await.unwrap()
    }

    /// Adds units to the stock.
    pub(crate) async fn restock(&self, sku: &str, units: i64) {
        let quantity = units.try_into().unwrap();
        self.store.restock(&sku.parse().unwrap(), "delivery", quantity).await.unwrap();
    }

    /// Audits both databases while the shops sell.
    pub(crate) async fn audit_meanwhile(&self) {
        let audit = Audit::of(&Books::read(&self.store, &self.provider).await.unwrap());
        assert!(audit.breaches.is_empty(), "{audit:#?}");
    }

    /// Waits until no intent is open, and audits both databases.
    pub(crate) async fn audit(&self) -> Audit {
        until("every intent is settled", async || {
            self.store.open_intents(Duration::ZERO).await.is_ok_and(|open| open.is_empty())
        })
        .await;
        let audit = Audit::of(&Books::read(&self.store, &self.provider).await.unwrap());
        assert!(audit.breaches.is_empty(), "{audit:#?}");
        assert_eq!((audit.oversold, audit.pending), (0, 0), "{audit:#?}");
        assert_eq!(audit.charged, audit.ordered + audit.refunded, "{audit:#?}");
        audit
    }
}

/// Asserts that nobody who was charged was told the opposite.
pub(crate) fn assert_honest(replies: &[Reply]) {
    for reply in replies {
        assert!(!reply.text.contains("nothing was charged"), "{replies:#?}");
    }
}
