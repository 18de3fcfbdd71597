//! Reservations, which keep units for a client for a limited time.

use super::{Quantity, Sku};
use lock_core::clock::UtcTime;
use std::fmt;

/// A reservation in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// Id of the reservation.
    pub id: String,
    /// Product code.
    pub sku: Sku,
    /// Number of units.
    pub quantity: Quantity,
    /// Price of all units, in cents.
    pub cents: u64,
    /// Time at which the units return to stock, by the creating shop's clock.
    pub expires_at: UtcTime,
    /// State of the reservation.
    pub state: ReservationState,
}

impl Reservation {
    /// Maximum duration of a reservation, in seconds.
    pub const MAX_SECONDS: u32 = 3_600;
}

/// The state of a reservation. It leaves [`Held`](Self::Held) exactly once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservationState {
    /// The units are reserved for the client.
    Held,
    /// The reservation became an order.
    Confirmed,
    /// The reservation was cancelled, and its units were returned to stock.
    Cancelled,
    /// The reservation expired, and its units were returned to stock.
    Expired,
}

impl ReservationState {
    const ALL: [Self; 4] = [Self::Held, Self::Confirmed, Self::Cancelled, Self::Expired];

    /// Returns the name under which this state is stored.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Confirmed => "confirmed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }

    /// Returns the state with this stored name, if there is one.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

impl fmt::Display for ReservationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
