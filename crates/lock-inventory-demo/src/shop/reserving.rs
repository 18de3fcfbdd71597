//! The end of a reservation without an order, by its client or by the job.

use super::{Shop, ShopError};
use crate::{
    domain::{Reservation, ReservationState},
    store::Changed,
};

impl Shop {
    /// Gives the pieces of an open reservation back, once. It takes the product's lock: another holder that has read the stock
    /// would overwrite the change.
    pub(crate) async fn give_back(
        &self,
        reservation: &Reservation,
        state: ReservationState,
    ) -> Result<Changed, ShopError> {
        let guard = self.lock(&reservation.sku)?.acquire_timeout(self.config.wait).await?;
        let changed = self.store().give_back(reservation, state, Some(guard.fencing_token())).await;
        // The work is done: a release that is not confirmed costs the next holder a wait.
        let _ = guard.release().await;
        Ok(changed?)
    }
}
