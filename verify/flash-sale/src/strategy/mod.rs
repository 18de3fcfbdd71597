//! The strategies for selling an order. [`Fenced`](Strategy::Fenced) is the router of the shop, unchanged. The others have
//! handlers here, on the shop's tables, and stand in the same layers: the customer, one run per `Idempotency-Key`, the checks
//! of the order. So every strategy answers a repeated request alike, and only the way to sell differs.
//!
//! | file | strategies |
//! | --- | --- |
//! | `unfenced.rs` | `none`, `mutex`, `setnx`, `lock`, `lock-write-fence`: read, pay, write. **Deliberately wrong** |
//! | `one_database.rs` | `conditional`, `for-update`, `units`: the database decides |
//! | `in_redis.rs` | `redis-lua`: a script in Redis decides; also the commands of `setnx` |
//! | `rows.rs` | their statements |
//!
//! Only `fenced` and `conditional` write an intent before they charge. With the others, a crash between the charge and the
//! order leaves a payment without an order.

mod in_redis;
mod kind;
mod one_database;
mod rows;
mod unfenced;

pub use in_redis::RedisCommands;
pub use kind::{Strategy, UnknownStrategy};
pub use rows::create_units;

use crate::problem::Problem;
use axum::{
    Extension, Router,
    body::{Body, Bytes},
    extract::State,
    http::{Response, StatusCode, request::Parts},
    middleware,
    response::IntoResponse,
    routing::post,
};
use distlock::{
    FencingToken, LockOptions,
    fred::fred,
    tower::{
        KeyError, KeyTemplate, LockHandle, LockLayer, LockedExt, OnLost,
        idempotency::{Attempt, IdempotencyLayer, StoreError as RecordError},
    },
};
use lock_inventory_demo::{
    Shop,
    domain::{Cents, Customer, NewOrder, OrderKey, Sku},
    orders::{admit, authenticated},
    payments::{Charge, PaymentError},
    store::StoreError,
};
use std::{sync::Arc, time::Duration};
use unfenced::Mutexes;

/// Longer than any pause of a scenario.
const KEY_LEASE: Duration = Duration::from_secs(60);

/// The routers of a shop with every strategy.
#[derive(Debug, Clone)]
pub struct Routers {
    fenced: Router,
    others: Arc<[(Strategy, Router)]>,
}

impl Routers {
    /// Returns the routers. Without `redis`, the strategies that [need it](Strategy::needs_redis) refuse all orders.
    #[must_use]
    pub fn of(shop: &Shop, redis: Option<RedisCommands>) -> Self {
        let mutexes = Mutexes::default();
        let others = Strategy::ALL.into_iter().filter(|strategy| *strategy != Strategy::Fenced);
        let router = |strategy| {
            let seller = Seller { strategy, redis: redis.clone(), mutexes: mutexes.clone() };
            (strategy, router(shop, seller))
        };
        Self { fenced: lock_inventory_demo::router(shop), others: others.map(router).collect() }
    }

    /// Returns the shop's own router, with all of its routes.
    pub fn shop(&self) -> Router {
        self.fenced.clone()
    }

    /// Returns the router for the orders of a strategy.
    pub fn orders(&self, strategy: Strategy) -> Router {
        let other = self.others.iter().find(|(other, _)| *other == strategy);
        other.map_or_else(|| self.shop(), |(_, router)| router.clone())
    }
}

fn router(shop: &Shop, seller: Seller) -> Router {
    let route = if seller.strategy.needs_lock() {
        // The same layer and the same name as in the shop.
        let lock = LockLayer::new(shop.locks.clone())
            .wait(shop.terms.wait)
            .max_hold(shop.terms.max_hold)
            .on_lost(OnLost::Signal)
            .detach(&shop.tasks);
        post(order).locked(&lock, KeyTemplate::template("product:{sku}").typed::<Sku>("sku"))
    } else {
        post(order)
    };
    let route = route
        .route_layer(middleware::from_fn_with_state(shop.clone(), admit))
        .route_layer(once(shop))
        .route_layer(middleware::from_fn(authenticated))
        .route_layer(Extension(seller));
    Router::new().route("/products/{sku}/orders", route).with_state(shop.clone())
}

/// Returns the shop's layer for repeated requests, with a longer lease. With the shop's, a repeat takes over the key of an order
/// that was paused for longer, and its record refuses the late write. That would hide by chance what a strategy gets wrong.
fn once(shop: &Shop) -> IdempotencyLayer {
    let lock = LockLayer::new(shop.locks.clone())
        .options(LockOptions::new().lease(KEY_LEASE))
        .wait(shop.terms.wait)
        .max_hold(KEY_LEASE)
        .detach(&shop.tasks);
    let customer = |request: &Parts| {
        let customer = request.extensions.get::<Customer>().map(|customer| customer.as_str().to_owned());
        customer.ok_or(KeyError::misconfigured("no customer"))
    };
    IdempotencyLayer::scoped(lock, shop.store.records(), customer).recorded_by_handler()
}

/// A strategy with what it needs besides the shop.
#[derive(Debug, Clone)]
struct Seller {
    strategy: Strategy,
    redis: Option<RedisCommands>,
    mutexes: Mutexes,
}

/// An order under way.
#[derive(Debug)]
struct Sale {
    shop: Shop,
    order: NewOrder,
    attempt: Attempt,
    token: Option<FencingToken>,
}

/// The end of a sale.
#[derive(Debug)]
enum Outcome {
    /// The order is written, and this answer is recorded with it.
    Sold(Response<Bytes>),
    SoldOut,
    Declined,
    /// The store refused a stale holder, and the payment was paid back.
    Stale,
    /// The payment was paid back before, under the same key.
    Refunded,
}

/// The reason for which the outcome of a sale is not known.
#[derive(Debug, thiserror::Error)]
enum SaleError {
    #[error("the shop's database failed")]
    Store(#[from] StoreError),
    #[error("the shop's database failed")]
    Statement(#[from] sqlx::Error),
    #[error("the answer could not be recorded")]
    Record(#[from] RecordError),
    #[error("the payment failed")]
    Payment(#[from] PaymentError),
    #[error("a command of the strategy failed")]
    Redis(#[from] fred::error::Error),
    #[error("this strategy keeps its data in Redis: set --locks to the address of a Redis server")]
    NeedsRedis,
}

async fn order(
    State(shop): State<Shop>,
    Extension(seller): Extension<Seller>,
    Extension(order): Extension<NewOrder>,
    Extension(attempt): Extension<Attempt>,
    lock: Option<LockHandle>,
) -> Result<Response<Body>, Problem> {
    let token = lock.filter(|_| seller.strategy.needs_lock()).map(|lock| lock.fencing_token());
    let sale = Sale { shop, order, attempt, token };
    let outcome = seller.sell(&sale).await.map_err(|error| match error {
        SaleError::NeedsRedis => {
            Problem::new(StatusCode::CONFLICT, "strategy-unavailable", error.to_string())
        }
        error => Problem::unknown("not-sold", &error),
    })?;
    match outcome {
        Outcome::Sold(answer) => Ok(answer.map(Body::from)),
        Outcome::SoldOut => Err(Problem::new(StatusCode::CONFLICT, "sold-out", "the units are gone")),
        Outcome::Declined => {
            Err(Problem::new(StatusCode::PAYMENT_REQUIRED, "declined", "the payment was declined"))
        }
        Outcome::Refunded => {
            Err(Problem::new(StatusCode::CONFLICT, "refunded", "what was charged has been paid back"))
        }
        Outcome::Stale => {
            let detail = "another request took over: repeat the request with a new key";
            Ok(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "stale-holder", detail).into_response())
        }
    }
}

impl Seller {
    async fn sell(&self, sale: &Sale) -> Result<Outcome, SaleError> {
        match self.strategy {
            Strategy::Mutex => self.mutexes.sell(sale).await,
            Strategy::Setnx => self.redis()?.sell_locked(sale).await,
            Strategy::LockWriteFence => unfenced::sell(sale, unfenced::Fence::OnWrite).await,
            // `Fenced` has the shop's router.
            Strategy::None | Strategy::Lock | Strategy::Fenced => {
                unfenced::sell(sale, unfenced::Fence::None).await
            }
            Strategy::Conditional => one_database::conditional(sale).await,
            Strategy::ForUpdate => one_database::for_update(sale).await,
            Strategy::Units => one_database::units(sale).await,
            Strategy::RedisLua => self.redis()?.sell_counted(sale).await,
        }
    }

    fn redis(&self) -> Result<&RedisCommands, SaleError> {
        self.redis.as_ref().ok_or(SaleError::NeedsRedis)
    }
}

impl Sale {
    fn key(&self) -> &OrderKey {
        &self.order.key
    }

    async fn charge(&self, cents: Cents) -> Result<Charge, PaymentError> {
        self.shop.payments.charge(self.key(), cents).await
    }
}
