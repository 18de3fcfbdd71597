//! Reservations, which deduct units from the stock for a limited time. The writes are relative, so
//! they are correct with and without a lock.

use super::{
    Store, StoreError, Tx,
    orders::{Entry, Written, record},
    products::quantity,
    restocks::Changed,
};
use crate::domain::{Reservation, ReservationState, Sku, Stale};
use lock_core::{FencingToken, clock::UtcTime};

/// The result of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reserved {
    /// The units are reserved.
    Held,
    /// There are too few units.
    SoldOut,
    /// An open or confirmed reservation with this id exists.
    IdTaken,
    /// The store has seen a newer holder.
    Stale(Stale),
}

type Row = (String, String, i64, i64, i64, String);

impl Store {
    /// Deducts a reservation's units from the stock. A holder of the product's lock passes its token.
    ///
    /// # Errors
    /// Returns [`StoreError::Database`] or [`StoreError::NoProduct`].
    pub async fn reserve(
        &self,
        reservation: &Reservation,
        token: Option<FencingToken>,
    ) -> Result<Reserved, StoreError> {
        let Reservation { id, sku, quantity, cents, expires_at, .. } = reservation;
        let pieces = i64::from(quantity.get());
        let write = async {
            let mut tx = self.begin().await?;
            if !change_stock(&mut tx, sku, -pieces, token).await? {
                return tx.rollback().await.map(|()| None);
            }
            // A client can repeat a cancelled or expired reservation.
            let new = sqlx::query(
                "insert into reservations (id, sku, quantity, cents, state, expires_at) values ($1, $2, $3, $4, 'held', \
                 $5) on conflict (id) do update set sku = $2, quantity = $3, cents = $4, state = 'held', expires_at = \
                 $5 where reservations.state in ('cancelled', 'expired')",
            )
            .bind(id)
            .bind(sku.as_str())
            .bind(pieces)
            .bind(i64::try_from(*cents).unwrap_or(i64::MAX))
            .bind(expires_at.as_millis().cast_signed())
            .execute(&mut *tx)
            .await?;
            match new.rows_affected() {
                0 => tx.rollback().await.map(|()| Some(Reserved::IdTaken)),
                _ => tx.commit().await.map(|()| Some(Reserved::Held)),
            }
        };
        match write.await.map_err(StoreError::of("reserve the units"))? {
            Some(reserved) => Ok(reserved),
            None => Ok(self.stale(sku, token).await?.map_or(Reserved::SoldOut, Reserved::Stale)),
        }
    }

    /// Turns an open reservation into an order. Returns `None` if the reservation is no longer open.
    ///
    /// # Errors
    /// Returns [`StoreError::Database`].
    pub async fn confirm(
        &self,
        reservation: &Reservation,
        entry: Entry<'_>,
    ) -> Result<Option<Written>, StoreError> {
        let write = async {
            let mut tx = self.begin().await?;
            if !leave_held(&mut tx, &reservation.id, ReservationState::Confirmed).await? {
                return tx.rollback().await.map(|()| None);
            }
            sqlx::query("update sku set sold = sold + $1 where id = $2")
                .bind(i64::from(reservation.quantity.get()))
                .bind(reservation.sku.as_str())
                .execute(&mut *tx)
                .await?;
            record(tx, entry).await.map(Some)
        };
        write.await.map_err(StoreError::of("confirm the reservation"))
    }

    /// Returns the units of an open reservation to stock, exactly once. A holder of the product's
    /// lock passes its token.
    ///
    /// # Errors
    /// Returns [`StoreError::Database`] or [`StoreError::NoProduct`].
    pub async fn give_back(
        &self,
        reservation: &Reservation,
        state: ReservationState,
        token: Option<FencingToken>,
    ) -> Result<Changed, StoreError> {
        let Reservation { id, sku, quantity, .. } = reservation;
        let write = async {
            let mut tx = self.begin().await?;
            if !leave_held(&mut tx, id, state).await? {
                return tx.rollback().await.map(|()| Some(Changed::NothingToDo));
            }
            match change_stock(&mut tx, sku, i64::from(quantity.get()), token).await? {
                true => tx.commit().await.map(|()| Some(Changed::Done)),
                false => tx.rollback().await.map(|()| None),
            }
        };
        match write.await.map_err(StoreError::of("return the reserved units"))? {
            Some(changed) => Ok(changed),
            None => match self.stale(sku, token).await? {
                Some(stale) => Ok(Changed::Stale(stale)),
                None => Err(StoreError::NoProduct { sku: sku.clone() }),
            },
        }
    }

    /// Returns the reservation with this id, if it exists.
    ///
    /// # Errors
    /// Returns [`StoreError::Database`] or [`StoreError::Invalid`].
    pub async fn reservation(&self, id: &str) -> Result<Option<Reservation>, StoreError> {
        let row: Option<Row> = sqlx::query_as(
            "select id, sku, quantity, cents, expires_at, state from reservations where id = $1",
        )
        .bind(id)
        .fetch_optional(&self.pool)
        .await
        .map_err(StoreError::of("read a reservation"))?;
        row.map(reservation).transpose()
    }

    /// Returns up to 1,000 open reservations that have expired by `now`, oldest first.
    ///
    /// # Errors
    /// Returns [`StoreError::Database`] or [`StoreError::Invalid`].
    pub async fn reservations_due(&self, now: UtcTime) -> Result<Vec<Reservation>, StoreError> {
        let rows: Vec<Row> = sqlx::query_as(
            "select id, sku, quantity, cents, expires_at, state from reservations where state = 'held' and expires_at \
             <= $1 order by expires_at, id limit 1000",
        )
        .bind(now.as_millis().cast_signed())
        .fetch_all(&self.pool)
        .await
        .map_err(StoreError::of("read the reservations"))?;
        rows.into_iter().map(reservation).collect()
    }

    /// Returns the newer token if this holder is stale.
    async fn stale(&self, sku: &Sku, mine: Option<FencingToken>) -> Result<Option<Stale>, StoreError> {
        let newer = self.fence(sku).await?;
        Ok(mine.filter(|mine| *mine < newer).map(|mine| Stale { mine, newer }))
    }
}

/// Changes the stock, unless the result would be negative or the store has seen a newer holder.
/// Stores the token, so an older holder cannot overwrite the change with a value based on an
/// earlier read.
async fn change_stock(
    tx: &mut Tx,
    sku: &Sku,
    by: i64,
    token: Option<FencingToken>,
) -> Result<bool, sqlx::Error> {
    let changed = sqlx::query(
        "update sku set stock = stock + $1, fence = case when fence < $2 then $2 else fence end where id = $3 and stock + \
         $1 >= 0 and ($2 = 0 or fence <= $2)",
    )
    .bind(by)
    .bind(token.map_or(0, FencingToken::as_i64))
    .bind(sku.as_str())
    .execute(&mut **tx)
    .await?;
    Ok(changed.rows_affected() == 1)
}

async fn leave_held(tx: &mut Tx, id: &str, state: ReservationState) -> Result<bool, sqlx::Error> {
    let left = sqlx::query("update reservations set state = $1 where id = $2 and state = 'held'")
        .bind(state.as_str())
        .bind(id)
        .execute(&mut **tx)
        .await?;
    Ok(left.rows_affected() == 1)
}

fn reservation((id, sku, pieces, cents, expires_at, state): Row) -> Result<Reservation, StoreError> {
    let sku = Sku::parse(&sku).map_err(|_| StoreError::invalid("reservations.sku", sku))?;
    let known = ReservationState::from_word(&state);
    let state = known.ok_or_else(|| StoreError::invalid("reservations.state", state))?;
    let cents = u64::try_from(cents).map_err(|_| StoreError::invalid("reservations.cents", cents))?;
    let expires_at = u64::try_from(expires_at).map(UtcTime::from_millis);
    let expires_at =
        expires_at.map_err(|_| StoreError::invalid("reservations.expires_at", "a negative time"))?;
    Ok(Reservation { id, sku, quantity: quantity(pieces)?, cents, expires_at, state })
}
