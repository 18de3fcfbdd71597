//! Cancellation of a reservation by its client or by the expiry job.

use super::{Shop, ShopError};
use crate::{
    domain::{Reservation, ReservationState},
    store::Changed,
};

impl Shop {
    /// Returns the units of an open reservation to stock, exactly once. Acquires the product's
    /// lock, because a holder that has already read the stock would otherwise overwrite the change.
    pub(crate) async fn give_back(
        &self,
        reservation: &Reservation,
        state: ReservationState,
    ) -> Result<Changed, ShopError> {
        let guard = self.lock(&reservation.sku)?.acquire_timeout(self.config.wait).await?;
        let changed = self.store().give_back(reservation, state, Some(guard.fencing_token())).await;
        // The change is committed. If the release is not confirmed, the next holder only waits
        // longer.
        let _ = guard.release().await;
        Ok(changed?)
    }
}
