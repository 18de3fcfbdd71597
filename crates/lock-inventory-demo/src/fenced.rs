//! The statements of a lock's holder. **Copy the first two.**
//!
//! A process can be paused after it checked its lock, and write when others hold it. The database refuses that write:
//! it keeps the highest fencing token that it has seen, and both the read and the write compare.

use crate::{
    database::Tx,
    domain::{Cents, NewOrder, Order, OrderKey, Quantity, Sku, now},
    store::{self, Store, StoreError},
};
use axum::{body::Bytes, http::Response};
use distlock::{
    FencingToken,
    tower::idempotency::{AnyIdempotencyStore, Attempt},
};

/// A transaction of a holder that the fence let pass. No newer holder can pass before it ends, because it has locked
/// the product's row. Dropping it rolls it back.
#[derive(Debug)]
pub struct Fenced {
    tx: Tx,
    token: FencingToken,
}

/// A product as its holder reads it.
#[derive(Debug, Clone, Copy, sqlx::FromRow)]
pub struct StockLevel {
    /// The units that are left.
    pub stock: i64,
    /// The price of one unit.
    pub price_cents: Cents,
}

/// A charge that the shop is about to make. The row is committed before the provider is called.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Intent {
    /// The name of the order.
    pub key: OrderKey,
    /// The product.
    pub sku: Sku,
    /// The units.
    pub quantity: Quantity,
    /// The price of all units.
    pub cents: Cents,
    /// The reservation whose units are bought.
    pub reservation: Option<OrderKey>,
    /// The state.
    #[sqlx(try_from = "String")]
    pub state: IntentState,
}

/// The state of an intent; see [`orders`](crate::orders).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntentState {
    /// The customer may have been charged.
    Open,
    /// The order is written.
    Ordered,
    /// It is decided that there will be no order. The customer may still have to be paid back.
    Refunding,
    /// There is no order, and the customer owes nothing.
    Refunded,
    /// The provider declined the payment.
    Declined,
}

impl Store {
    /// The fenced read: begins a transaction, raises the product's fence to this token, and reads the product. Returns
    /// `None` if a newer holder has read, or if there is no such product.
    ///
    /// Commit the transaction even if nothing is sold, or older holders can still pass.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the database fails.
    ///
    /// # Cancel safety
    /// Dropping this changes nothing.
    pub async fn fenced_read(
        &self,
        sku: &Sku,
        token: FencingToken,
    ) -> Result<Option<(Fenced, StockLevel)>, StoreError> {
        let mut tx = self.begin().await?;
        let read =
            "update products set fence = $2 where sku = $1 and fence <= $2 returning stock, price_cents";
        let read = sqlx::query_as(read).bind(sku).bind(token.as_i64());
        let level: Option<StockLevel> = read.fetch_optional(&mut *tx).await?;
        Ok(level.map(|level| (Fenced { tx, token }, level)))
    }

    /// The fenced write: begins a transaction whose writes are only made if no newer holder has read since
    /// [`fenced_read`](Self::fenced_read). Returns `None` if one has.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the database fails.
    ///
    /// # Cancel safety
    /// Dropping this changes nothing.
    pub async fn fenced_write(&self, sku: &Sku, token: FencingToken) -> Result<Option<Fenced>, StoreError> {
        let mut tx = self.begin().await?;
        let write = "update products set fence = $2 where sku = $1 and fence = $2";
        let held = sqlx::query(write).bind(sku).bind(token.as_i64()).execute(&mut *tx).await?;
        Ok((held.rows_affected() == 1).then_some(Fenced { tx, token }))
    }
}

impl Fenced {
    /// Returns the intent of an order.
    pub(crate) async fn intent(&mut self, key: &OrderKey) -> Result<Option<Intent>, StoreError> {
        let intent = "select key, sku, quantity, cents, reservation, state from intents where key = $1";
        Ok(sqlx::query_as(intent).bind(key).fetch_optional(&mut *self.tx).await?)
    }

    /// Returns `true` if the units of an intent can still be sold.
    pub(crate) async fn has_units(&mut self, level: StockLevel, intent: &Intent) -> Result<bool, StoreError> {
        let Some(reservation) = &intent.reservation else {
            return Ok(level.stock >= intent.quantity.get());
        };
        let held = "select id from reservations \
                    where id = $1 and sku = $2 and quantity = $3 and state = 'held' and expires_at > $4";
        let held = sqlx::query(held).bind(reservation).bind(&intent.sku).bind(intent.quantity).bind(now());
        Ok(held.fetch_optional(&mut *self.tx).await?.is_some())
    }

    /// Stops an attempt if a newer one of the same key has begun. The fence cannot tell: a key has a lock of its own,
    /// and an attempt that lost it can still be the newest holder of the product's.
    pub(crate) async fn check_latest(&mut self, attempt: Option<&Attempt>) -> Result<(), StoreError> {
        let Some(attempt) = attempt else { return Ok(()) };
        Ok(AnyIdempotencyStore::check_in(&mut self.tx, attempt).await?)
    }

    /// Writes a new intent.
    pub(crate) async fn insert_intent(&mut self, intent: &Intent) -> Result<(), StoreError> {
        let insert = "insert into intents (key, sku, quantity, cents, reservation, state, opened_at) \
                      values ($1, $2, $3, $4, $5, $6, $7)";
        let Intent { key, sku, quantity, cents, reservation, state } = intent;
        let insert = sqlx::query(insert).bind(key).bind(sku).bind(quantity).bind(cents).bind(reservation);
        insert.bind(state.as_str()).bind(now()).execute(&mut *self.tx).await?;
        Ok(())
    }

    /// Changes the state of an intent. Its last state needs no comparison: the holder has read it behind the same
    /// fence.
    pub(crate) async fn set_intent(&mut self, key: &OrderKey, state: IntentState) -> Result<(), StoreError> {
        let update = "update intents set state = $2 where key = $1";
        sqlx::query(update).bind(key).bind(state.as_str()).execute(&mut *self.tx).await?;
        Ok(())
    }

    /// Takes the units of an intent and writes its order. Returns `None`, and changes nothing, if the units are gone:
    /// reservations take and return units without the lock.
    pub(crate) async fn sell(&mut self, intent: &Intent) -> Result<Option<Order>, StoreError> {
        let from_stock = match &intent.reservation {
            None => intent.quantity.get(),
            Some(reservation) => {
                let order = "update reservations set state = 'ordered' where id = $1 and state = 'held'";
                let held = sqlx::query(order).bind(reservation).execute(&mut *self.tx).await?;
                if held.rows_affected() == 0 {
                    return Ok(None);
                }
                0
            }
        };
        let take = "update products set stock = stock - $2, sales = sales + 1 where sku = $1 and stock >= $2 \
                    returning sales";
        let take = sqlx::query_scalar(take).bind(&intent.sku).bind(from_stock);
        let Some(number) = take.fetch_optional(&mut *self.tx).await? else { return Ok(None) };
        let order = Order {
            key: intent.key.clone(),
            sku: intent.sku.clone(),
            quantity: intent.quantity,
            cents: intent.cents,
            number,
            token: Some(self.token.as_i64()),
        };
        store::insert_order(&mut self.tx, &order).await?;
        self.set_intent(&intent.key, IntentState::Ordered).await?;
        Ok(Some(order))
    }

    /// Returns an order that was written before.
    pub(crate) async fn order(&mut self, key: &OrderKey) -> Result<Order, StoreError> {
        Ok(store::order(&mut self.tx, key).await?.ok_or(sqlx::Error::RowNotFound)?)
    }

    /// Records the answer of a request, so that it is committed together with its effects.
    pub(crate) async fn record(
        &mut self,
        attempt: &Attempt,
        answer: &Response<Bytes>,
    ) -> Result<(), StoreError> {
        Ok(AnyIdempotencyStore::complete_in(&mut self.tx, attempt, answer).await?)
    }

    /// Commits the transaction.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the database fails. It may have been committed.
    ///
    /// # Cancel safety
    /// Dropping this commits or rolls back.
    pub async fn commit(self) -> Result<(), StoreError> {
        Ok(self.tx.commit().await?)
    }
}

impl Intent {
    /// Creates the intent of an order.
    pub(crate) fn of(order: NewOrder, price: Cents) -> Self {
        let NewOrder { key, sku, quantity, reservation } = order;
        Self { key, sku, quantity, cents: price.times(quantity), reservation, state: IntentState::Open }
    }

    /// Returns `true` if it belongs to this order, and not to another one with the same key.
    pub(crate) fn is_of(&self, order: &NewOrder) -> bool {
        (&self.sku, self.quantity, &self.reservation) == (&order.sku, order.quantity, &order.reservation)
    }
}

impl IntentState {
    const ALL: [Self; 5] = [Self::Open, Self::Ordered, Self::Refunding, Self::Refunded, Self::Declined];

    /// Returns the word in the table.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Ordered => "ordered",
            Self::Refunding => "refunding",
            Self::Refunded => "refunded",
            Self::Declined => "declined",
        }
    }
}

impl TryFrom<String> for IntentState {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|state| state.as_str() == word);
        known.ok_or_else(|| format!("`{word}` is no state of an intent: was it written by another version?"))
    }
}
