//! Strategies that send their own commands to Redis.

use super::{Outcome, Sale, SaleError, rows, unfenced};
use distlock::fred::fred::{
    clients::Client,
    error::Error,
    interfaces::ClientLike,
    types::{Builder, ClusterHash, CustomCommand, FromValue, config::Config},
};
use lock_inventory_demo::{domain::Sku, payments::Charge};
use std::{fmt, time::Duration};
use tokio::time::sleep;

/// The TTL of the lock of `setnx`, which is longer than any payment without a fault.
const SETNX_TTL: Duration = Duration::from_millis(50);
/// Pause between two attempts to set the key of `setnx`.
const RETRY: Duration = Duration::from_millis(2);

/// Deducts ARGV[1] units from KEYS[1]. Replies: 1 deducted, 0 too few, -1 no count yet.
const TAKE: &str = "local stock = redis.call('get', KEYS[1]) \
                    if not stock then return -1 end \
                    if tonumber(stock) < tonumber(ARGV[1]) then return 0 end \
                    redis.call('decrby', KEYS[1], ARGV[1]) return 1";

/// A plain Redis connection. Clones share it.
#[derive(Clone)]
pub struct RedisCommands {
    client: Client,
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
        let mut config = Config::from_url(url)?;
        config.fail_fast = true;
        let client = Builder::from_config(config).build()?;
        client.init().await?;
        Ok(Self { client, prefix: prefix.into() })
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
        let outcome = unfenced::sell(sale, unfenced::Fence::None).await;
        let _: i64 = self.command("DEL", vec![key]).await?;
        outcome
    }

    /// Sells from a count in Redis, which a script deducts. The order is written afterwards. This is fast, but the two can
    /// diverge: if a shop dies in between, units are lost, and if Redis loses its data, units are sold twice.
    pub(super) async fn sell_counted(&self, sale: &Sale) -> Result<Outcome, SaleError> {
        let level = rows::read(sale).await?;
        let (key, units) = (self.key("count", &sale.order.sku), sale.order.quantity.get().to_string());
        let taken = loop {
            let arguments = vec![TAKE.to_owned(), "1".to_owned(), key.clone(), units.clone()];
            match self.command::<i64>("EVAL", arguments).await? {
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
        let _: i64 = self.command("INCRBY", vec![key, units]).await?;
        Ok(refused)
    }

    async fn set_if_absent(&self, key: &str, value: &str, ttl: Option<Duration>) -> Result<bool, Error> {
        let mut arguments = vec![key.to_owned(), value.to_owned(), "NX".to_owned()];
        if let Some(ttl) = ttl {
            arguments.extend(["PX".to_owned(), ttl.as_millis().to_string()]);
        }
        let set: Option<String> = self.command("SET", arguments).await?;
        Ok(set.is_some())
    }

    fn key(&self, kind: &str, sku: &Sku) -> String {
        format!("{}:{kind}:{sku}", self.prefix)
    }

    async fn command<R: FromValue>(&self, name: &'static str, arguments: Vec<String>) -> Result<R, Error> {
        self.client.custom(CustomCommand::new_static(name, ClusterHash::FirstKey, false), arguments).await
    }
}

impl fmt::Debug for RedisCommands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Omit the client, because its configuration may contain a password.
        f.debug_struct("RedisCommands").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
