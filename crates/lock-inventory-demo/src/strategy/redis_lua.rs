//! A strategy without a lock. A script deducts the stock in Redis, and the order is written
//! afterwards. This is fast, but the two can diverge: if a shop dies in between, units are lost,
//! and if Redis loses its data, units are sold twice.

use super::seller::{SellError, Seller};
use crate::domain::{Order, Outcome, Quantity, Sku};
use lock_fred::fred::{
    clients::Client,
    error::Error,
    interfaces::ClientLike,
    types::{Builder, ClusterHash, CustomCommand, FromValue, config::Config},
};
use std::{fmt, time::Duration};

/// A plain Redis connection, for strategies that send their own commands. Clones share it.
#[derive(Clone)]
pub struct RedisStock {
    client: Client,
    prefix: String,
}

/// Deducts ARGV[1] units from KEYS[1]. Replies: 1 deducted, 0 too few, -1 no count yet.
const TAKE: &str = "local stock = redis.call('get', KEYS[1]) \
                    if not stock then return -1 end \
                    if tonumber(stock) < tonumber(ARGV[1]) then return 0 end \
                    redis.call('decrby', KEYS[1], ARGV[1]) return 1";

impl RedisStock {
    /// Connects to Redis. All key names start with `prefix`.
    ///
    /// # Errors
    /// Returns fred's error, without the address.
    ///
    /// # Cancel safety
    /// Dropping this closes the connection.
    pub async fn connect(url: &str, prefix: &str) -> Result<Self, Error> {
        let mut config = Config::from_url(url)?;
        config.fail_fast = true;
        let client = Builder::from_config(config).build()?;
        client.init().await?;
        Ok(Self { client, prefix: prefix.into() })
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) async fn set_if_absent(
        &self,
        key: &str,
        value: &str,
        ttl: Option<Duration>,
    ) -> Result<bool, Error> {
        let mut arguments = vec![key.to_owned(), value.to_owned(), "NX".to_owned()];
        if let Some(ttl) = ttl {
            arguments.extend(["PX".to_owned(), ttl.as_millis().to_string()]);
        }
        let set: Option<String> = self.command("SET", arguments).await?;
        Ok(set.is_some())
    }

    pub(super) async fn delete(&self, key: &str) -> Result<(), Error> {
        self.command("DEL", vec![key.to_owned()]).await
    }

    /// Deducts units from a stock. Returns `Some(false)` if there are too few, and `None` if Redis has no count yet.
    async fn take(&self, sku: &Sku, pieces: Quantity) -> Result<Option<bool>, Error> {
        let arguments = vec![TAKE.to_owned(), "1".to_owned(), self.key(sku), pieces.get().to_string()];
        let reply: i64 = self.command("EVAL", arguments).await?;
        Ok((reply >= 0).then_some(reply == 1))
    }

    async fn put_back(&self, sku: &Sku, pieces: Quantity) -> Result<(), Error> {
        self.command("INCRBY", vec![self.key(sku), pieces.get().to_string()]).await
    }

    fn key(&self, sku: &Sku) -> String {
        format!("{}count:{sku}", self.prefix)
    }

    async fn command<R: FromValue>(&self, name: &'static str, arguments: Vec<String>) -> Result<R, Error> {
        self.client.custom(CustomCommand::new_static(name, ClusterHash::FirstKey, false), arguments).await
    }
}

impl fmt::Debug for RedisStock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Omit the client, because its configuration may contain a password.
        f.debug_struct("RedisStock").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

pub(super) async fn sell(seller: &Seller, order: &Order) -> Result<Outcome, SellError> {
    let redis = seller.redis()?;
    let taken = loop {
        match redis.take(&order.sku, order.quantity).await? {
            Some(taken) => break taken,
            None => {
                let stock = seller.store.read(&order.sku).await?;
                redis.set_if_absent(&redis.key(&order.sku), &stock.get().to_string(), None).await?;
            }
        }
    };
    if !taken {
        return Ok(Outcome::SoldOut);
    }
    let Ok(payment) = seller.payments.charge(order).await else {
        redis.put_back(&order.sku, order.quantity).await?;
        return Ok(Outcome::Declined);
    };
    let written = seller.store.record_sale(seller.entry(order, None)).await?;
    let outcome = seller.conclude(order, None, payment, written).await?;
    if !matches!(outcome, Outcome::Accepted(_)) {
        redis.put_back(&order.sku, order.quantity).await?;
    }
    Ok(outcome)
}
