//! The idempotency key, with which a client identifies an order.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr, sync::Arc};

/// The value of an `Idempotency-Key` header: 1 to 255 visible ASCII characters. Cheap to clone.
///
/// The client chooses the key before the first attempt and sends it again with each retry. The key
/// identifies the order in the ledger and at the payment service. A fencing token cannot replace
/// it, because each attempt has a new token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IdempotencyKey(Arc<str>);

impl IdempotencyKey {
    /// Maximum length in bytes.
    pub const MAX_BYTES: usize = 255;

    /// Returns the key as sent by the client.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for IdempotencyKey {
    type Err = KeyError;

    fn from_str(key: &str) -> Result<Self, KeyError> {
        if key.is_empty() {
            return Err(KeyError::Empty);
        }
        if key.len() > Self::MAX_BYTES {
            return Err(KeyError::TooLong { bytes: key.len() });
        }
        match key.chars().find(|c| !c.is_ascii_graphic()) {
            Some(_) => Err(KeyError::Character),
            None => Ok(Self(key.into())),
        }
    }
}

impl TryFrom<String> for IdempotencyKey {
    type Error = KeyError;

    fn try_from(key: String) -> Result<Self, KeyError> {
        key.parse()
    }
}

impl From<IdempotencyKey> for String {
    fn from(key: IdempotencyKey) -> Self {
        key.as_str().to_owned()
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The error for an invalid idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text is empty.
    #[error(
        "the Idempotency-Key is empty: send a new random key with each order, and the same key with each retry"
    )]
    Empty,
    /// The text is too long.
    #[error("the Idempotency-Key is {bytes} bytes long: use at most 255 bytes")]
    TooLong {
        /// Length in bytes.
        bytes: usize,
    },
    /// The text contains a space, a control character or a non-ASCII character.
    #[error(
        "the Idempotency-Key contains a character outside visible ASCII: use only ASCII letters, digits and punctuation"
    )]
    Character,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_1_to_255_visible_ascii_characters() {
        assert_eq!("order-7".parse::<IdempotencyKey>().unwrap().as_str(), "order-7");
        assert_eq!("".parse::<IdempotencyKey>(), Err(KeyError::Empty));
        assert!("x".repeat(255).parse::<IdempotencyKey>().is_ok());
        assert_eq!("x".repeat(256).parse::<IdempotencyKey>(), Err(KeyError::TooLong { bytes: 256 }));
        for key in ["a b", "a\n", "schlüssel"] {
            assert_eq!(key.parse::<IdempotencyKey>(), Err(KeyError::Character));
        }
    }
}
