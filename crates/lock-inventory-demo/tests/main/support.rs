//! Shops that share their locks and databases, their customers, and payments that stop at a point.

use async_trait::async_trait;
use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, Request, StatusCode},
};
use distlock::{LockFactory, MemoryBackend, inspect::ForceReleaseOutcome, tower::DetachedTasks};
use lock_inventory_demo::{
    Shop, Terms,
    audit::{Audit, Books},
    domain::{Cents, OrderKey, Product, Sku},
    payments::{Charge, Payment, PaymentError, Payments, Provider},
    router,
    store::Store,
};
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::sync::Semaphore;
use tower::ServiceExt;

/// The only product.
pub(crate) const SKU: &str = "kettle";
pub(crate) const PRICE: i64 = 600_000;

/// The parts that the shops of a test share.
pub(crate) struct Stage {
    pub(crate) store: Store,
    pub(crate) provider: Provider,
    backend: MemoryBackend,
    _folder: TempDir,
}

impl Stage {
    /// Opens two databases, with this many units for sale.
    pub(crate) async fn with_units(units: i64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = |name: &str| format!("sqlite://{}/{name}.sqlite", folder.path().display());
        let store = Store::open(&url("shop")).await.unwrap();
        let product =
            Product { sku: sku(), title: "Kettle".into(), price: Cents::new(PRICE), initial: units };
        store.set_up(&[product]).await.unwrap();
        let provider = Provider::open(&url("payments"), Duration::ZERO).await.unwrap();
        Self { store, provider, backend: MemoryBackend::new(), _folder: folder }
    }

    /// Returns a shop with locks of its own on the shared store.
    pub(crate) fn shop(&self) -> Shop {
        self.shop_with(Arc::new(self.provider.clone()))
    }

    pub(crate) fn shop_with(&self, payments: Arc<dyn Payments>) -> Shop {
        Shop {
            locks: LockFactory::new(self.backend.clone()),
            store: self.store.clone(),
            payments,
            tasks: DetachedTasks::new(),
            terms: Terms::default(),
        }
    }

    /// Returns a shop whose payments stop at this point, and the payments.
    pub(crate) fn stopping(&self, at: Point) -> (Shop, Arc<Stop>) {
        let stop = Arc::new(Stop {
            provider: self.provider.clone(),
            at,
            arrived: Semaphore::new(0),
            resumed: Semaphore::new(0),
        });
        (self.shop_with(stop.clone()), stop)
    }

    pub(crate) async fn stock(&self) -> i64 {
        self.store.offer(&sku()).await.unwrap().unwrap().stock
    }

    /// Audits the books, which have no breach.
    pub(crate) async fn audit(&self) -> Audit {
        let audit = Audit::of(&Books::read(&self.store, &self.provider).await.unwrap());
        assert_eq!(audit.breaches, [], "{audit}");
        audit
    }
}

pub(crate) fn sku() -> Sku {
    SKU.parse().unwrap()
}

/// Frees the product's lock, as if the lease of its holder had ended while its process was paused.
pub(crate) async fn take_lock_away(shop: &Shop) {
    let lock = lock_inventory_demo::orders::lock_of(shop, &sku()).unwrap();
    let released = shop.locks.force_release(lock.name()).await.unwrap();
    assert!(matches!(released, ForceReleaseOutcome::Released { .. }), "the paused order holds it");
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    /// Returns the last word of the problem type; empty for other answers.
    pub(crate) fn problem(&self) -> &str {
        self.body["type"].as_str().unwrap_or_default().rsplit(':').next().unwrap_or_default()
    }

    pub(crate) fn is_replayed(&self) -> bool {
        self.headers.contains_key("idempotent-replayed")
    }
}

/// Sends a request with a body to a shop.
pub(crate) async fn send(
    shop: &Shop,
    method: &str,
    path: &str,
    customer: &str,
    key: &str,
    body: &str,
) -> Answer {
    send_to(router(shop), method, path, &[("x-customer", customer), ("idempotency-key", key)], body).await
}

/// Orders units of the product.
pub(crate) async fn order(shop: &Shop, customer: &str, key: &str, body: &str) -> Answer {
    send(shop, "POST", "/products/kettle/orders", customer, key, body).await
}

pub(crate) async fn send_to(
    routes: Router,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = routes.oneshot(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap();
    let (head, body) = response.into_parts();
    let body = to_bytes(body, 1 << 20).await.unwrap();
    assert_ne!(head.status, StatusCode::INTERNAL_SERVER_ERROR, "{body:?}");
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Answer { status: head.status.as_u16(), headers: head.headers, body }
}

/// The point at which payments stop, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Point {
    BeforeCharge,
    AfterCharge,
    BeforeRefund,
}

/// Payments that stop a shop, as a pause of its process would.
#[derive(Debug)]
pub(crate) struct Stop {
    provider: Provider,
    at: Point,
    arrived: Semaphore,
    resumed: Semaphore,
}

impl Stop {
    /// Waits until a shop has stopped.
    pub(crate) async fn arrived(&self) {
        self.arrived.acquire().await.unwrap().forget();
    }

    pub(crate) fn resume(&self) {
        self.resumed.add_permits(1);
    }

    async fn pass(&self, point: Point) {
        if point == self.at {
            self.arrived.add_permits(1);
            self.resumed.acquire().await.unwrap().forget();
        }
    }
}

#[async_trait]
impl Payments for Stop {
    async fn charge(&self, key: &OrderKey, cents: Cents) -> Result<Charge, PaymentError> {
        self.pass(Point::BeforeCharge).await;
        let charge = self.provider.charge(key, cents).await;
        self.pass(Point::AfterCharge).await;
        charge
    }

    async fn refund(&self, key: &OrderKey) -> Result<(), PaymentError> {
        self.pass(Point::BeforeRefund).await;
        self.provider.refund(key).await
    }

    async fn statement(&self) -> Result<Vec<Payment>, PaymentError> {
        self.provider.statement().await
    }
}

/// Payments whose answer to a charge is lost, as it is if the process dies before it arrives.
#[derive(Debug)]
pub(crate) struct LostAnswers(pub(crate) Provider);

#[async_trait]
impl Payments for LostAnswers {
    async fn charge(&self, key: &OrderKey, cents: Cents) -> Result<Charge, PaymentError> {
        self.0.charge(key, cents).await?;
        Err(PaymentError::NoAnswer)
    }

    async fn refund(&self, key: &OrderKey) -> Result<(), PaymentError> {
        self.0.refund(key).await
    }

    async fn statement(&self) -> Result<Vec<Payment>, PaymentError> {
        self.0.statement().await
    }
}
