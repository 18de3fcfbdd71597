//! The ways to sell an order.
//!
//! `unfenced` reads, pays, and writes: the stock that is written was computed from a read. Correct only while nobody else
//! writes. Its strategies differ in what keeps others out:
//!
//! | strategy | keeps out | fails |
//! | --- | --- | --- |
//! | `none` | nobody | at once |
//! | `mutex` | other requests of this process | with a second process |
//! | `setnx` | others, until the TTL ends | if a section is slower than the TTL |
//! | `lock` | others, while the lease is renewed | if a holder is paused past its lease |
//! | `lock-write-fence` | the same, and stale writes after a newer *write* | if a stale write comes between a newer holder's read and write |
//!
//! `conditional`, `for_update` and `units` need no distributed lock, since the stock is in one database. Buyers of a product
//! wait for each other at most for a statement, except with `for-update`. `setnx` and `redis-lua` send their own commands to
//! Redis.

use super::{Outcome, Sale, SaleError, rows};
use crate::redis::RedisConnection;
use distlock::fred::fred::error::Error;
use lock_inventory_demo::{
    database::Tx,
    domain::{Cents, Sku},
    payments::Charge,
    store::End,
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::sleep;

/// The TTL of the lock of `setnx`, which is longer than any payment without a fault.
const SETNX_TTL: Duration = Duration::from_millis(50);
/// Pause between two attempts to set the key of `setnx`.
const RETRY: Duration = Duration::from_millis(2);

/// The place at which the token is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fence {
    None,
    OnWrite,
}

/// Sells an order. The token, if there is one, is written with the order.
pub(super) async fn unfenced(sale: &Sale, fence: Fence) -> Result<Outcome, SaleError> {
    let level = rows::read(sale).await?;
    let left = level.stock - sale.order.quantity.get();
    if left < 0 {
        return Ok(Outcome::SoldOut);
    }
    let cents = level.price_cents.times(sale.order.quantity);
    match sale.charge(cents).await? {
        Charge::Charged => {}
        Charge::Declined => return Ok(Outcome::Declined),
        Charge::Refunded => return Ok(Outcome::Refunded),
    }
    match rows::write(sale, left, cents, fence).await? {
        Some(answer) => Ok(Outcome::Sold(answer)),
        None => {
            sale.shop.payments.refund(sale.key()).await?;
            Ok(Outcome::Stale)
        }
    }
}

/// The mutexes of a process, one for each product.
#[derive(Debug, Clone, Default)]
pub(super) struct Mutexes(Arc<Mutex<HashMap<Sku, Arc<tokio::sync::Mutex<()>>>>>);

impl Mutexes {
    pub(super) async fn sell(&self, sale: &Sale) -> Result<Outcome, SaleError> {
        let mutex = self.of(&sale.order.sku);
        let _guard = mutex.lock().await;
        unfenced(sale, Fence::None).await
    }

    fn of(&self, sku: &Sku) -> Arc<tokio::sync::Mutex<()>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(sku.clone()).or_default().clone()
    }
}

/// One conditional statement takes the units, as a reservation, and the intent is written with it. The second transaction
/// turns the reservation into the order. If this process dies in between, the shop's job `settle` finds the intent: the
/// same tables, the same guarantees, and no lock. **The simplest correct way if the stock is one row of one database.**
pub(super) async fn conditional(sale: &Sale) -> Result<Outcome, SaleError> {
    let Some(cents) = rows::take_with_intent(sale).await? else {
        return Ok(Outcome::SoldOut);
    };
    match sale.charge(cents).await? {
        Charge::Charged => {}
        Charge::Declined => {
            sale.shop.store.end_reservation(sale.key(), End::Cancelled).await?;
            rows::decline(sale).await?;
            return Ok(Outcome::Declined);
        }
        Charge::Refunded => return Ok(Outcome::Refunded),
    }
    match rows::confirm(sale, cents).await? {
        Some(answer) => Ok(Outcome::Sold(answer)),
        // The reservation expired during a slow payment. The intent is left to the job, which pays back.
        None => Ok(Outcome::Stale),
    }
}

/// A transaction locks the product's row and stays open during the payment. Every waiter occupies a database connection. On
/// SQLite, all other writes wait.
pub(super) async fn for_update(sale: &Sale) -> Result<Outcome, SaleError> {
    let (tx, level) = rows::lock_row(sale).await?;
    if level.stock < sale.order.quantity.get() {
        return Ok(Outcome::SoldOut);
    }
    pay_within(sale, tx, level.price_cents.times(sale.order.quantity)).await
}

/// Each unit has a row, taken with `skip locked`. PostgreSQL only.
pub(super) async fn units(sale: &Sale) -> Result<Outcome, SaleError> {
    let cents = rows::read(sale).await?.price_cents.times(sale.order.quantity);
    let Some(tx) = rows::take_units(sale).await? else {
        return Ok(Outcome::SoldOut);
    };
    pay_within(sale, tx, cents).await
}

/// Takes the payment while the transaction is open, and then writes the order in it.
async fn pay_within(sale: &Sale, tx: Tx, cents: Cents) -> Result<Outcome, SaleError> {
    match sale.charge(cents).await? {
        Charge::Charged => Ok(Outcome::Sold(rows::sell_relative(sale, tx, cents).await?)),
        Charge::Declined => Ok(Outcome::Declined),
        Charge::Refunded => Ok(Outcome::Refunded),
    }
}

/// Deducts ARGV[1] units from KEYS[1]. Replies: 1 deducted, 0 too few, -1 no count yet.
const TAKE: &str = "local stock = redis.call('get', KEYS[1]) \
                    if not stock then return -1 end \
                    if tonumber(stock) < tonumber(ARGV[1]) then return 0 end \
                    redis.call('decrby', KEYS[1], ARGV[1]) return 1";

/// The strategies that send their own commands to Redis. Clones share the connection.
#[derive(Debug, Clone)]
pub struct RedisCommands {
    connection: RedisConnection,
    prefix: String,
}

impl RedisCommands {
    /// Connects to Redis. All keys start with `prefix`.
    ///
    /// # Errors
    /// Returns fred's error, without the address.
    ///
    /// # Cancel safety
    /// Dropping this closes the connection.
    pub async fn connect(url: &str, prefix: &str) -> Result<Self, Error> {
        Ok(Self { connection: RedisConnection::connect(url).await?, prefix: prefix.into() })
    }

    /// Sells under a common homemade lock: `SET key 1 NX PX ttl`, and `DEL key` at the end.
    ///
    /// It has two faults. It is not renewed, so a section that takes longer than the TTL overlaps the next one. Its `DEL`
    /// then deletes the next section's lock, which admits a third section.
    pub(super) async fn sell_locked(&self, sale: &Sale) -> Result<Outcome, SaleError> {
        let key = self.key("setnx", &sale.order.sku);
        while !self.set_if_absent(&key, "1", Some(SETNX_TTL)).await? {
            sleep(RETRY).await;
        }
        let outcome = unfenced(sale, Fence::None).await;
        let _: i64 = self.connection.command("DEL", vec![key]).await?;
        outcome
    }

    /// Sells from a count in Redis, which a script deducts. The order is written afterwards. This is fast, but the two can
    /// diverge: if a shop dies in between, units are lost, and if Redis loses its data, units are sold twice.
    pub(super) async fn sell_counted(&self, sale: &Sale) -> Result<Outcome, SaleError> {
        let level = rows::read(sale).await?;
        let (key, units) = (self.key("count", &sale.order.sku), sale.order.quantity.get().to_string());
        let taken = loop {
            let arguments = vec![TAKE.to_owned(), "1".to_owned(), key.clone(), units.clone()];
            match self.connection.command::<i64>("EVAL", arguments).await? {
                -1 => drop(self.set_if_absent(&key, &level.stock.to_string(), None).await?),
                reply => break reply == 1,
            }
        };
        if !taken {
            return Ok(Outcome::SoldOut);
        }
        let cents = level.price_cents.times(sale.order.quantity);
        let refused = match sale.charge(cents).await? {
            Charge::Charged => {
                let tx = sale.shop.store.begin().await?;
                return Ok(Outcome::Sold(rows::sell_relative(sale, tx, cents).await?));
            }
            Charge::Declined => Outcome::Declined,
            Charge::Refunded => Outcome::Refunded,
        };
        let _: i64 = self.connection.command("INCRBY", vec![key, units]).await?;
        Ok(refused)
    }

    async fn set_if_absent(&self, key: &str, value: &str, ttl: Option<Duration>) -> Result<bool, Error> {
        let mut arguments = vec![key.to_owned(), value.to_owned(), "NX".to_owned()];
        if let Some(ttl) = ttl {
            arguments.extend(["PX".to_owned(), ttl.as_millis().to_string()]);
        }
        let set: Option<String> = self.connection.command("SET", arguments).await?;
        Ok(set.is_some())
    }

    fn key(&self, kind: &str, sku: &Sku) -> String {
        format!("{}:{kind}:{sku}", self.prefix)
    }
}
