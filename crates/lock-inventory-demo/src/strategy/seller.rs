//! The resources and steps shared by all strategies.

use super::{
    Strategy, conditional, fenced, for_update, lock, mutex::Mutexes, none, redis_lua, redis_lua::RedisStock,
    setnx, units, write_fence,
};
use crate::{
    domain::{Order, Outcome, Receipt},
    payment::{Payment, Payments},
    store::{Entry, Store, StoreError, Written},
};
use lock_core::FencingToken;
use lock_fred::fred;

/// A shop's store, payment service and Redis connection. Clones share them.
#[derive(Debug, Clone)]
pub struct Seller {
    pub(super) shop: String,
    pub(super) store: Store,
    pub(super) payments: Payments,
    pub(super) redis: Option<RedisStock>,
    pub(super) mutexes: Mutexes,
}

impl Seller {
    /// Creates a seller for the shop with this name. Only the strategies [`Setnx`](Strategy::Setnx)
    /// and [`RedisLua`](Strategy::RedisLua) need `redis`.
    #[must_use]
    pub fn new(shop: &str, store: Store, payments: Payments, redis: Option<RedisStock>) -> Self {
        Self { shop: shop.into(), store, payments, redis, mutexes: Mutexes::default() }
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the payment service.
    #[must_use]
    pub fn payments(&self) -> &Payments {
        &self.payments
    }

    /// Returns `true` if strategies that send their own Redis commands can be used.
    #[must_use]
    pub fn has_redis(&self) -> bool {
        self.redis.is_some()
    }

    /// Sells an order and returns its outcome. For a strategy that [needs the lock](Strategy::needs_lock), the caller
    /// must hold the lock and pass its token.
    ///
    /// # Errors
    /// Returns [`SellError`]. If the store or Redis failed, the outcome is unknown, and the client
    /// must repeat the request with its key.
    ///
    /// # Cancel safety
    /// If this is dropped, a payment may have been taken without an order. Run it in a task that
    /// the client cannot cancel.
    pub async fn sell(
        &self,
        strategy: Strategy,
        order: &Order,
        token: Option<FencingToken>,
    ) -> Result<Outcome, SellError> {
        // The ledger makes requests idempotent; the lock does not. Reading the ledger under the
        // lock ensures that the second of two requests with the same key finds the first one's
        // order.
        if let Some(receipt) = self.store.receipt(&order.key).await? {
            return Ok(receipt.repeated_by(order));
        }
        let token = || token.ok_or(SellError::NoLock);
        match strategy {
            Strategy::None => none::sell(self, order).await,
            Strategy::Mutex => self.mutexes.sell(self, order).await,
            Strategy::Setnx => setnx::sell(self, order).await,
            Strategy::Lock => lock::sell(self, order, token()?).await,
            Strategy::LockWriteFence => write_fence::sell(self, order, token()?).await,
            Strategy::Fenced => fenced::sell(self, order, token()?).await,
            Strategy::Conditional => conditional::sell(self, order).await,
            Strategy::ForUpdate => for_update::sell(self, order).await,
            Strategy::Units => units::sell(self, order).await,
            Strategy::RedisLua => redis_lua::sell(self, order).await,
        }
    }

    pub(super) fn entry<'a>(&'a self, order: &'a Order, token: Option<FencingToken>) -> Entry<'a> {
        Entry { order, shop: &self.shop, token }
    }

    /// Converts the result of a write into an outcome. Refunds the payment if the write was not
    /// recorded.
    pub(crate) async fn conclude(
        &self,
        order: &Order,
        token: Option<FencingToken>,
        payment: Payment,
        written: Written,
    ) -> Result<Outcome, SellError> {
        if written == Written::Recorded {
            return Ok(Outcome::Accepted(Receipt::of(order, token)));
        }
        self.payments.refund(payment).await;
        match written {
            Written::Stale(stale) => Ok(Outcome::Stale(stale)),
            // A concurrent request with this key was faster, either for a different product or at a
            // shop without the lock.
            _ => match self.store.receipt(&order.key).await? {
                Some(receipt) => Ok(receipt.repeated_by(order)),
                None => Ok(Outcome::InProgress),
            },
        }
    }

    pub(super) fn redis(&self) -> Result<&RedisStock, SellError> {
        self.redis.as_ref().ok_or(SellError::NeedsRedis)
    }
}

/// An error that ended a sale. After a failure of the store or of Redis, the order's outcome is
/// unknown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SellError {
    /// The store failed.
    #[error("could not read or write the stock")]
    Store(#[from] StoreError),
    /// A command that the strategy sent to Redis failed.
    #[error("could not execute the strategy's Redis command")]
    Redis(#[from] fred::error::Error),
    /// The strategy needs Redis.
    #[error("this strategy keeps its data in Redis: set --locks to the address of a Redis server")]
    NeedsRedis,
    /// The caller does not hold the lock.
    #[error(
        "this strategy needs the product's lock, but the route did not acquire it: add the lock layer to the route"
    )]
    NoLock,
}
