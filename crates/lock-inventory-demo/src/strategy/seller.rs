//! What every strategy sells with, and the frame around all of them.

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

/// A shop's stock, payment service and Redis. Clones are the same.
#[derive(Debug, Clone)]
pub struct Seller {
    pub(super) shop: String,
    pub(super) store: Store,
    pub(super) payments: Payments,
    pub(super) redis: Option<RedisStock>,
    pub(super) mutexes: Mutexes,
}

impl Seller {
    /// A seller under this name. Only the strategies [`Setnx`](Strategy::Setnx) and [`RedisLua`](Strategy::RedisLua)
    /// need `redis`.
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

    /// Returns whether strategies that send their own commands to Redis can be used.
    #[must_use]
    pub fn has_redis(&self) -> bool {
        self.redis.is_some()
    }

    /// Sells an order, or says why not. A strategy that [needs the lock](Strategy::needs_lock) is called by its holder, with the
    /// holder's token.
    ///
    /// # Errors
    /// [`SellError`] if the outcome is not known: the client repeats the request with its key.
    ///
    /// # Cancel safety
    /// A dropped call may have taken a payment without writing the order: run it in a task that its client cannot end.
    pub async fn sell(
        &self,
        strategy: Strategy,
        order: &Order,
        token: Option<FencingToken>,
    ) -> Result<Outcome, SellError> {
        // A lock is not idempotency: the ledger is. Under the lock, so that of two requests with one key the second
        // finds the order of the first.
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

    /// Turns the result of a write into the outcome. A write that is not recorded returns the payment.
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
            // Another request with this key was faster, for another product or at a shop without the lock.
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

/// An order has no known outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SellError {
    /// The store failed.
    #[error("the stock could not be read or written")]
    Store(#[from] StoreError),
    /// Redis failed, in a strategy that sends its own commands.
    #[error("Redis could not be asked")]
    Redis(#[from] fred::error::Error),
    /// The strategy needs a Redis.
    #[error("this strategy keeps its data in Redis: give the address of one to --locks")]
    NeedsRedis,
    /// The caller does not hold the lock.
    #[error(
        "this strategy needs the lock of the product, and the route did not take it: put the layer on the route"
    )]
    NoLock,
}
