//! An order: `POST /products/{sku}/orders` with an `Idempotency-Key`.
//!
//! # The layers, from the outside to the inside
//! 1. [`authenticated`]: the customer, since two customers must not share a key.
//! 2. [`once_per_key`]: a repeated request receives the recorded answer. It also buffers the body, so that a slow client
//!    holds no lock.
//! 3. [`admit`]: the body and the product. A request that is refused without the product's lock never waits for it.
//! 4. The product's lock. Both locks are detached: a customer who leaves does not stop an order halfway.
//! 5. The handler, which writes the order and records its answer in one transaction.
//!
//! # The states of an intent
//! The shop's database and the provider's cannot commit together. So the shop first writes what it is about to do. The
//! next holder of the product's lock can then continue, at whatever line the process died or was paused. Every change
//! of a state is a fenced write, and a state is only acted on after it was committed.
//!
//! | state | the money | the next holder |
//! | --- | --- | --- |
//! | none | not charged | may refuse: "nothing was charged" is true; writes an intent only if it is the newest attempt of its key |
//! | `open` | perhaps charged | charges again with the same key, which charges once, and writes the order; or changes to `refunding` if the units are gone |
//! | `refunding` | perhaps charged, perhaps paid back | pays back again; never writes an order, so a refund that comes late hits none |
//! | `ordered` | charged | answers with the order |
//! | `refunded` | paid back, or never charged; the key is blocked, so a charge that comes late is refused | answers |
//! | `declined` | not charged, and will not be | answers |
//!
//! The next holder is a repeated request with the same key, or the job [`settle`](crate::jobs). A holder that was
//! paused between two of these steps calls the provider once more at most, with a key that the provider knows, and is
//! then stopped by the fence.

use crate::{
    Shop, catalogue,
    domain::{Customer, NewOrder, Order, OrderKey, Quantity, Sku},
    fenced::{Fenced, Intent, IntentState, StockLevel},
    payments::{Charge, PaymentError},
    problem::Problem,
    store::StoreError,
};
use axum::{
    Extension, Json,
    body::{self, Body, Bytes},
    extract::{Path, Request, State, rejection::PathRejection},
    http::{HeaderMap, HeaderValue, Response, StatusCode, header, request::Parts},
    middleware::{self, Next},
    routing::{MethodRouter, post},
};
use distlock::{
    FencingToken, Lock, LockError, LockName,
    tower::{
        KeyError, KeyTemplate, LockHandle, LockLayer, LockedExt, OnLost,
        idempotency::{Attempt, Execution, IdempotencyLayer},
    },
};
use serde::Deserialize;
use std::time::Duration;
use tokio::time::timeout;

/// The limit of the idempotency layer for each request to the records.
const STORE_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum length of an order, in bytes.
const MAX_BODY: usize = 4096;

/// Returns the route of orders, with all of its layers.
pub fn route(shop: &Shop) -> MethodRouter<Shop> {
    let lock = LockLayer::new(shop.locks.clone())
        .wait(shop.terms.wait)
        .max_hold(shop.terms.max_hold)
        // Stopping the handler would leave its intent to others. It goes on, and the fence refuses its writes if need
        // be.
        .on_lost(OnLost::Signal)
        .detach(&shop.tasks);
    let product = KeyTemplate::template("product:{sku}").typed::<Sku>("sku");
    // The layer that is added last runs first.
    post(order)
        .locked(&lock, product)
        .route_layer(middleware::from_fn_with_state(shop.clone(), admit))
        .route_layer(once_per_key(shop))
        .route_layer(middleware::from_fn(authenticated))
}

/// Returns the lock of a product: the same one that the route takes.
///
/// # Errors
/// Returns [`LockError`] if the prefix of the locks leaves no room for the name.
pub fn lock_of(shop: &Shop, sku: &Sku) -> Result<Lock, LockError> {
    shop.locks.named(LockName::of(("product", sku.as_str()))?)
}

/// Returns the layer that answers a repeated request with the recorded answer. The handler records it, together with
/// what it writes.
///
/// If the lock of the key is lost, as in a long pause, the layer answers 503 `lost`. The handler is detached from it by
/// the product's lock and goes on: the fence and the record decide, and a repeat receives the answer.
pub fn once_per_key(shop: &Shop) -> IdempotencyLayer {
    let lock = LockLayer::new(shop.locks.clone())
        .wait(shop.terms.wait)
        .max_hold(shop.terms.wait + shop.terms.max_hold + STORE_TIMEOUT)
        .detach(&shop.tasks);
    let customer = |request: &Parts| {
        let customer = request.extensions.get::<Customer>().map(|customer| customer.as_str().to_owned());
        customer
            .ok_or(KeyError::misconfigured("no customer: is the layer `authenticated` outside of this one?"))
    };
    IdempotencyLayer::scoped(lock, shop.store.records(), customer)
        .recorded_by_handler()
        .store_timeout(STORE_TIMEOUT)
}

/// Reads the customer from the header `x-customer`. The gateway that authenticates customers sets it, and removes one
/// that a client sent.
///
/// # Errors
/// Returns a [`Problem`] if the header is missing or invalid.
///
/// # Cancel safety
/// Dropping this drops the handler, unless it is detached.
pub async fn authenticated(mut request: Request, next: Next) -> Result<Response<Body>, Problem> {
    let customer = customer(request.headers())?;
    request.extensions_mut().insert(customer);
    Ok(next.run(request).await)
}

/// Returns the customer of a request.
pub(crate) fn customer(headers: &HeaderMap) -> Result<Customer, Problem> {
    let detail = "the header `x-customer` is missing, or present twice";
    let nobody = || Problem::new(StatusCode::UNAUTHORIZED, "no-customer", detail);
    Ok(only(headers, "x-customer").ok_or_else(nobody)?.parse()?)
}

/// Returns the value of a header that is present once: of two, one may be the gateway's, and the other the client's.
pub(crate) fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok();
    value.filter(|_| values.next().is_none())
}

/// Returns the name of what a request creates, from its customer and its `Idempotency-Key`.
pub(crate) fn key_of(customer: &Customer, headers: &HeaderMap) -> Result<OrderKey, Problem> {
    let detail = "the header `Idempotency-Key` is missing, or present twice";
    let missing = || Problem::new(StatusCode::BAD_REQUEST, "no-key", detail);
    let text = only(headers, "idempotency-key").ok_or_else(missing)?;
    // With or without the quotes of the draft standard; both are one key, as for the records.
    let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    Ok(OrderKey::new(customer, quoted.unwrap_or(text))?)
}

/// The body of an order.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OrderBody {
    quantity: Quantity,
    /// The `Idempotency-Key` of the customer's reservation.
    reservation: Option<String>,
}

/// Reads and checks an order before its lock is acquired. The handler extracts it as `Extension<NewOrder>`.
///
/// # Errors
/// Returns a [`Problem`] if the order cannot be read, or there is no such product.
///
/// # Cancel safety
/// Dropping this drops the handler, unless it is detached.
pub async fn admit(
    State(shop): State<Shop>,
    sku: Result<Path<Sku>, PathRejection>,
    Extension(customer): Extension<Customer>,
    request: Request,
    next: Next,
) -> Result<Response<Body>, Problem> {
    let Path(sku) = sku?;
    let (mut head, body) = request.into_parts();
    let too_large = |_| Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "the order is too long");
    let body = body::to_bytes(body, MAX_BODY).await.map_err(too_large)?;
    let Json(OrderBody { quantity, reservation }) = Json::from_bytes(&body)?;
    let key = key_of(&customer, &head.headers)?;
    let named = |key: String| OrderKey::new(&customer, &key);
    let reservation = reservation.map(named).transpose()?;
    catalogue::offer(&shop.store, &sku).await?;
    head.extensions.insert(NewOrder { key, sku, quantity, reservation });
    Ok(next.run(Request::from_parts(head, Body::empty())).await)
}

/// The handler.
async fn order(
    State(shop): State<Shop>,
    Extension(order): Extension<NewOrder>,
    Extension(attempt): Extension<Attempt>,
    lock: LockHandle,
) -> Result<Response<Body>, Problem> {
    let holder = Holder { shop: &shop, token: lock.fencing_token(), attempt: Some(&attempt) };
    match holder.order(order).await {
        Ok(outcome) => Ok(outcome.answer().map(Body::from)),
        Err(error) => Err(error.problem(lock.fencing_token())),
    }
}

/// A holder of a product's lock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holder<'a> {
    pub(crate) shop: &'a Shop,
    pub(crate) token: FencingToken,
    /// The request whose answer is recorded; `None` for a job.
    pub(crate) attempt: Option<&'a Attempt>,
}

/// The end of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Ordered(Order),
    /// By an earlier attempt, or by a job.
    OrderedBefore(Order),
    Declined,
    Refunded,
}

/// The reason for which an order has no end, yet.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OrderError {
    #[error("there are not that many units left: nothing was charged")]
    SoldOut,
    #[error("this key was used for another order: send a new key")]
    KeyReused,
    #[error("a newer holder of the product's lock took over: repeat the request with the same key")]
    Stale,
    #[error("the shop's database failed")]
    Store(#[source] StoreError),
    #[error("the payment failed")]
    Payment(#[from] PaymentError),
}

impl From<StoreError> for OrderError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Superseded => Self::Stale,
            error => Self::Store(error),
        }
    }
}

impl Holder<'_> {
    /// Decides an order.
    async fn order(&self, order: NewOrder) -> Result<Outcome, OrderError> {
        let read = self.shop.store.fenced_read(&order.sku, self.token).await?;
        let (mut tx, level) = read.ok_or(OrderError::Stale)?;
        match tx.intent(&order.key).await? {
            // The records protect a key for a day; after that, this does.
            Some(intent) if !intent.is_of(&order) => Err(OrderError::KeyReused),
            Some(intent) => self.settle(tx, level, intent).await,
            None => {
                // A newer attempt may have told the customer that nothing was charged.
                tx.check_latest(self.attempt).await?;
                let intent = Intent::of(order, level.price_cents);
                let has_units = tx.has_units(level, &intent).await?;
                if has_units {
                    tx.insert_intent(&intent).await?;
                }
                // Without units, for the fence: an older attempt of this key, paused before this line, must not pass
                // later.
                tx.commit().await?;
                if has_units { self.charge(&intent).await } else { Err(OrderError::SoldOut) }
            }
        }
    }

    /// Continues the intent of somebody who did not. It is completed if the units are there: the customer asked for
    /// them and may have paid; otherwise the customer is paid back. Returns `None` if there is no such intent.
    pub(crate) async fn resume(&self, sku: &Sku, key: &OrderKey) -> Result<Option<Outcome>, OrderError> {
        let read = self.shop.store.fenced_read(sku, self.token).await?;
        let (mut tx, level) = read.ok_or(OrderError::Stale)?;
        let Some(intent) = tx.intent(key).await? else { return Ok(None) };
        self.settle(tx, level, intent).await.map(Some)
    }

    /// Brings an intent to its end, from the state that the transaction found.
    async fn settle(&self, mut tx: Fenced, level: StockLevel, intent: Intent) -> Result<Outcome, OrderError> {
        match intent.state {
            IntentState::Open if tx.has_units(level, &intent).await? => {
                tx.commit().await?;
                self.charge(&intent).await
            }
            IntentState::Open => self.give_up(tx, &intent).await,
            IntentState::Refunding => {
                tx.commit().await?;
                self.refund(&intent).await
            }
            IntentState::Ordered => {
                let order = tx.order(&intent.key).await?;
                self.finish(tx, Outcome::OrderedBefore(order)).await
            }
            IntentState::Refunded => self.finish(tx, Outcome::Refunded).await,
            IntentState::Declined => self.finish(tx, Outcome::Declined).await,
        }
    }

    /// Charges, and writes the order. The caller has committed the intent.
    async fn charge(&self, intent: &Intent) -> Result<Outcome, OrderError> {
        let charge = self.shop.payments.charge(&intent.key, intent.cents);
        let charge = timeout(self.shop.terms.payment, charge).await.map_err(|_| PaymentError::NoAnswer)??;
        let mut tx = self.fenced_write(intent).await?;
        match charge {
            Charge::Charged => match tx.sell(intent).await? {
                Some(order) => self.finish(tx, Outcome::Ordered(order)).await,
                None => self.give_up(tx, intent).await,
            },
            Charge::Refunded => self.give_up(tx, intent).await,
            Charge::Declined => {
                tx.set_intent(&intent.key, IntentState::Declined).await?;
                self.finish(tx, Outcome::Declined).await
            }
        }
    }

    /// Decides that there will be no order. The decision is committed before the refund: a holder that is paused in
    /// between would otherwise pay back an order that a newer holder wrote.
    async fn give_up(&self, mut tx: Fenced, intent: &Intent) -> Result<Outcome, OrderError> {
        tx.set_intent(&intent.key, IntentState::Refunding).await?;
        tx.commit().await?;
        self.refund(intent).await
    }

    /// Pays back. The caller has committed the decision.
    async fn refund(&self, intent: &Intent) -> Result<Outcome, OrderError> {
        let refund = self.shop.payments.refund(&intent.key);
        timeout(self.shop.terms.payment, refund).await.map_err(|_| PaymentError::NoAnswer)??;
        let mut tx = self.fenced_write(intent).await?;
        tx.set_intent(&intent.key, IntentState::Refunded).await?;
        self.finish(tx, Outcome::Refunded).await
    }

    async fn fenced_write(&self, intent: &Intent) -> Result<Fenced, OrderError> {
        let tx = self.shop.store.fenced_write(&intent.sku, self.token).await?;
        tx.ok_or(OrderError::Stale)
    }

    /// Commits the end of an order together with the answer to its request.
    async fn finish(&self, mut tx: Fenced, outcome: Outcome) -> Result<Outcome, OrderError> {
        if let Some(attempt) = self.attempt {
            tx.record(attempt, &outcome.answer()).await?;
        }
        tx.commit().await?;
        Ok(outcome)
    }
}

impl Outcome {
    /// Returns the answer, which is recorded and sent.
    fn answer(&self) -> Response<Bytes> {
        let mut answer = match self {
            Self::Ordered(order) => sold(StatusCode::CREATED, order),
            Self::OrderedBefore(order) => sold(StatusCode::OK, order),
            Self::Declined => {
                let detail = "the payment was declined: nothing was charged";
                Problem::new(StatusCode::PAYMENT_REQUIRED, "declined", detail).answer()
            }
            Self::Refunded => {
                let detail = "the units went to others in the meantime: what was charged has been paid back";
                Problem::new(StatusCode::CONFLICT, "refunded", detail).answer()
            }
        };
        // Without this, the layer takes a 409 for a request that did nothing, and frees its key.
        answer.extensions_mut().insert(Execution::Done);
        answer
    }
}

/// Returns the answer with an order.
pub(crate) fn sold(status: StatusCode, order: &Order) -> Response<Bytes> {
    let mut answer = Response::new(Bytes::from(serde_json::json!(order).to_string()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

impl OrderError {
    fn problem(self, token: FencingToken) -> Problem {
        match self {
            Self::SoldOut => Problem::new(StatusCode::CONFLICT, "sold-out", self.to_string()),
            Self::KeyReused => Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "key-reused", self.to_string()),
            Self::Stale => {
                let detail = "another request took over: repeat with the same key; a payment becomes an order or is \
                              paid back";
                let stale = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "stale-holder", detail);
                stale.token(token.as_i64()).retry()
            }
            Self::Store(error) => error.into(),
            Self::Payment(error @ PaymentError::OtherAmount) => {
                tracing::error!(%error, "order not settled");
                Problem::new(StatusCode::CONFLICT, "other-amount", error.to_string())
            }
            Self::Payment(error) => Problem::unavailable("payment", &error),
        }
    }
}
