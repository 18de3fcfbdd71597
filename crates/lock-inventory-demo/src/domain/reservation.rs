//! Pieces that are kept for a client for a limited time.

use super::{Quantity, Sku};
use std::fmt;

/// A reservation as the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// Its id.
    pub id: String,
    /// The product.
    pub sku: Sku,
    /// The number of pieces.
    pub quantity: Quantity,
    /// The price of all of them, in cents.
    pub cents: u64,
    /// The time at which the pieces go back, in milliseconds since 1970 UTC.
    pub expires_at: i64,
    /// Its state.
    pub state: ReservationState,
}

impl Reservation {
    /// The longest reservation, in seconds.
    pub const MAX_SECONDS: u32 = 3_600;
}

/// The state of a reservation. It leaves [`Held`](Self::Held) once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservationState {
    /// Its pieces are kept.
    Held,
    /// It became an order.
    Confirmed,
    /// The client gave the pieces back.
    Cancelled,
    /// Its time is over, and the pieces went back.
    Expired,
}

impl ReservationState {
    const ALL: [Self; 4] = [Self::Held, Self::Confirmed, Self::Cancelled, Self::Expired];

    /// Returns the word of the state, as it is stored.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Confirmed => "confirmed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }

    /// Returns the state of a stored word.
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
