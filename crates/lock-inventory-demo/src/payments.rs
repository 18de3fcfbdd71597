//! The payments: another system, with a database of its own. No transaction spans the two, and no fencing token is
//! checked there, which is why the shop writes an intent before it charges.

use crate::{
    database::{Database, DatabaseError},
    domain::{Cents, OrderKey},
};
use async_trait::async_trait;
use std::{fmt::Debug, time::Duration};

/// A provider of payments.
///
/// It knows each payment by its key, so that every call can be repeated.
#[async_trait]
pub trait Payments: Debug + Send + Sync + 'static {
    /// Charges the customer, at most once for each key. A repeated call returns the first answer, also
    /// [`Charge::Declined`], unless the key was refunded since.
    ///
    /// # Errors
    /// Returns [`PaymentError`] if the outcome is not known: the customer may or may not have been charged.
    ///
    /// # Cancel safety
    /// Dropping this leaves the outcome unknown. Repeat the call with the same key.
    async fn charge(&self, key: &OrderKey, cents: Cents) -> Result<Charge, PaymentError>;

    /// Pays back what was charged for the key, and blocks the key: a charge that is still on its way is refused when it
    /// arrives. Can be repeated.
    ///
    /// # Errors
    /// Returns [`PaymentError`] if the outcome is not known.
    ///
    /// # Cancel safety
    /// Dropping this leaves the outcome unknown. Repeat the call with the same key.
    async fn refund(&self, key: &OrderKey) -> Result<(), PaymentError>;

    /// Returns the provider's books, for the audit.
    ///
    /// # Errors
    /// Returns [`PaymentError`] if the provider does not answer.
    ///
    /// # Cancel safety
    /// Cancel safe: it changes nothing.
    async fn statement(&self) -> Result<Vec<Payment>, PaymentError>;
}

/// The answer to a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charge {
    /// The customer was charged, now or by an earlier call.
    Charged,
    /// The customer was not charged, and will not be for this key.
    Declined,
    /// The key was refunded before. The customer owes nothing, and will not be charged for this key.
    Refunded,
}

/// A line of the provider's books, as it stands there.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Payment {
    /// The key.
    pub key: String,
    /// The amount that was charged, in cents. 0 if the key was refunded before it was charged.
    pub cents: i64,
    /// `charged` or `refunded`.
    pub state: String,
}

/// The error of a call whose outcome is not known.
#[derive(Debug, thiserror::Error)]
pub enum PaymentError {
    /// The provider did not answer in time.
    #[error("the payment provider did not answer: repeat the call with the same key")]
    NoAnswer,
    /// The key was charged with another amount.
    #[error(
        "the key was charged with another amount, by another program or an older database: an operator must look"
    )]
    OtherAmount,
    /// The provider failed.
    #[error("the payment provider failed: repeat the call with the same key")]
    Failed(#[from] DatabaseError),
}

impl From<sqlx::Error> for PaymentError {
    fn from(error: sqlx::Error) -> Self {
        Self::Failed(error.into())
    }
}

/// A provider for demonstrations. It answers some time *after* its commit, so that its callers die in between.
#[derive(Debug, Clone)]
pub struct Provider {
    database: Database,
    delay: Duration,
}

/// The amount above which the provider declines.
pub const CARD_LIMIT: Cents = Cents::new(1_000_000);

impl Provider {
    /// Opens the provider's database.
    ///
    /// # Errors
    /// Returns [`DatabaseError`] if it cannot be opened.
    ///
    /// # Cancel safety
    /// Dropping this closes the connections.
    pub async fn open(url: &str, delay: Duration) -> Result<Self, DatabaseError> {
        let database = Database::open(url, &sqlx::migrate!("migrations/payments")).await?;
        Ok(Self { database, delay })
    }

    /// Returns the provider's database.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }
}

#[async_trait]
impl Payments for Provider {
    async fn charge(&self, key: &OrderKey, cents: Cents) -> Result<Charge, PaymentError> {
        if cents > CARD_LIMIT {
            return Ok(Charge::Declined);
        }
        let mut tx = self.database.begin().await?;
        let charge =
            "insert into charges (key, cents, state) values ($1, $2, 'charged') on conflict (key) do nothing";
        sqlx::query(charge).bind(key).bind(cents).execute(&mut *tx).await?;
        let read = "select cents, state from charges where key = $1";
        let (charged, state): (Cents, String) = sqlx::query_as(read).bind(key).fetch_one(&mut *tx).await?;
        tx.commit().await?;
        tokio::time::sleep(self.delay).await;
        match state.as_str() {
            "refunded" => Ok(Charge::Refunded),
            _ if charged != cents => Err(PaymentError::OtherAmount),
            _ => Ok(Charge::Charged),
        }
    }

    async fn refund(&self, key: &OrderKey) -> Result<(), PaymentError> {
        let refund = "insert into charges (key, cents, state) values ($1, 0, 'refunded') \
                      on conflict (key) do update set state = 'refunded'";
        sqlx::query(refund).bind(key).execute(self.database.pool()).await?;
        tokio::time::sleep(self.delay).await;
        Ok(())
    }

    async fn statement(&self) -> Result<Vec<Payment>, PaymentError> {
        let lines = sqlx::query_as("select key, cents, state from charges order by key");
        Ok(lines.fetch_all(self.database.pool()).await?)
    }
}
