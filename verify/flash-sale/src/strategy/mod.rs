//! The strategies for selling an order. [`Fenced`](Strategy::Fenced) is the router of the shop, unchanged. The others have
//! handlers here, on the shop's tables, and stand in the same layers: the customer, one run per `Idempotency-Key`, the checks
//! of the order. So every strategy answers a repeated request alike, and only the way to sell differs.
//!
//! | file | strategies |
//! | --- | --- |
//! | `sell.rs`: `unfenced` | `none`, `mutex`, `setnx`, `lock`, `lock-write-fence`: read, pay, write. **Deliberately wrong** |
//! | `sell.rs`: `conditional`, `for_update`, `units` | the database decides |
//! | `sell.rs`: `RedisCommands` | `redis-lua`: a script in Redis decides; also the commands of `setnx` |
//! | `rows.rs` | their statements |
//!
//! Only `fenced` and `conditional` write an intent before they charge. With the others, a crash between the charge and the
//! order leaves a payment without an order.

mod rows;
mod sell;

pub use rows::create_units;
pub use sell::RedisCommands;

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
use sell::{Fence, Mutexes, conditional, for_update, unfenced, units};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr, sync::Arc, time::Duration};

/// Longer than any pause of a scenario.
const KEY_LEASE: Duration = Duration::from_secs(60);

/// A strategy for selling orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Read, pay and write without a lock. Oversells.
    None,
    /// Read, pay and write under a mutex in each process. Oversells with two processes.
    Mutex,
    /// Read, pay and write under `SET NX PX` and a plain `DEL`. Oversells if a section takes longer
    /// than the TTL.
    Setnx,
    /// Read, pay and write under the distributed lock. Oversells if a holder is paused past its
    /// lease.
    Lock,
    /// The distributed lock with a token that is checked only on the write. Oversells in the same case as
    /// [`Lock`](Self::Lock), but more rarely.
    LockWriteFence,
    /// The shop's own router: the distributed lock with a token that is checked on the read and on the write, and an intent
    /// before the charge. **Copy this one.**
    Fenced,
    /// Without a lock: `update … where stock >= q` and an intent, then the payment, then the order.
    Conditional,
    /// Without a distributed lock: a transaction that locks the row during the payment.
    ForUpdate,
    /// Without a lock: one row per unit, taken with `skip locked`. PostgreSQL only.
    Units,
    /// Without a lock: the stock in Redis, deducted by a script.
    RedisLua,
}

impl Strategy {
    /// All strategies.
    pub const ALL: [Self; 10] = [
        Self::None,
        Self::Mutex,
        Self::Setnx,
        Self::Lock,
        Self::LockWriteFence,
        Self::Fenced,
        Self::Conditional,
        Self::ForUpdate,
        Self::Units,
        Self::RedisLua,
    ];

    /// Returns the command-line name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Mutex => "mutex",
            Self::Setnx => "setnx",
            Self::Lock => "lock",
            Self::LockWriteFence => "lock-write-fence",
            Self::Fenced => "fenced",
            Self::Conditional => "conditional",
            Self::ForUpdate => "for-update",
            Self::Units => "units",
            Self::RedisLua => "redis-lua",
        }
    }

    /// Returns `true` if the route must hold the product's lock.
    #[must_use]
    pub const fn needs_lock(self) -> bool {
        matches!(self, Self::Lock | Self::LockWriteFence | Self::Fenced)
    }

    /// Returns `true` if the strategy sends its own commands to Redis.
    #[must_use]
    pub const fn needs_redis(self) -> bool {
        matches!(self, Self::Setnx | Self::RedisLua)
    }

    /// Returns `true` if the strategy needs PostgreSQL.
    #[must_use]
    pub const fn needs_postgres(self) -> bool {
        matches!(self, Self::Units)
    }

    /// Returns `true` if the strategy keeps its own stock count. A running shop cannot switch to
    /// it.
    #[must_use]
    pub const fn keeps_own_stock(self) -> bool {
        matches!(self, Self::Units | Self::RedisLua)
    }
}

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(name: &str) -> Result<Self, UnknownStrategy> {
        let known = Self::ALL.into_iter().find(|strategy| strategy.name() == name);
        known.ok_or_else(|| UnknownStrategy { name: name.into() })
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for an unknown strategy name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown strategy `{name}`: use one of {}", Strategy::ALL.map(Strategy::name).join(", "))]
pub struct UnknownStrategy {
    name: String,
}

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
            Strategy::LockWriteFence => unfenced(sale, Fence::OnWrite).await,
            // `Fenced` has the shop's router.
            Strategy::None | Strategy::Lock | Strategy::Fenced => unfenced(sale, Fence::None).await,
            Strategy::Conditional => conditional(sale).await,
            Strategy::ForUpdate => for_update(sale).await,
            Strategy::Units => units(sale).await,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_on_the_command_line_and_in_json() {
        for strategy in Strategy::ALL {
            assert_eq!(strategy.name().parse(), Ok(strategy));
            assert_eq!(serde_json::to_value(strategy).unwrap(), strategy.name());
        }
        let unknown = "lock-read-fence".parse::<Strategy>().unwrap_err().to_string();
        assert!(unknown.contains("`lock-read-fence`") && unknown.contains("none, mutex, setnx"), "{unknown}");
    }
}
