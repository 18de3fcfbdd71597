//! Fencing tokens, by which a resource rejects outdated holders.

use std::fmt;

/// A fencing token. Tokens strictly increase per lock name, and each hold has its own; a re-entry keeps its
/// hold's token.
///
/// No lock service can prevent a process that was paused past its lease from writing. The resource can: it stores the
/// highest token that it has seen and rejects older ones, **on the read and on the write** (a check only on the write
/// still loses updates):
///
/// ```sql
/// -- read; no row: a newer holder was here, stop
/// update sku set fence = $token where id = $id and fence <= $token returning stock;
/// -- write, in the transaction that records the order; no row: stop, roll back
/// update sku set stock = $new where id = $id and fence = $token;
/// ```
///
/// Tokens can decrease in one case: the store loses its counter *while* its clock is behind the last token.
///
/// Tokens are microseconds of the store's clock as long as it moves forward, so they keep increasing when a store loses
/// its data. They fit an SQL `BIGINT` ([`FencingToken::as_i64`]) and are below 2⁵³ until the year 2255.
///
/// Source: Martin Kleppmann, "How to do distributed locking" (2016).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FencingToken(u64);

impl FencingToken {
    /// Creates the token with this number.
    ///
    /// Tokens come from a store; use this to read back one that was saved.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the number for an SQL `BIGINT`. A number beyond `i64::MAX`, which no store draws, is capped there.
    #[must_use]
    pub const fn as_i64(self) -> i64 {
        if self.0 > i64::MAX as u64 { i64::MAX } else { self.0 as i64 }
    }

    /// Returns the token after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> u64 {
        token.get()
    }
}

impl From<FencingToken> for i64 {
    fn from(token: FencingToken) -> i64 {
        token.as_i64()
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_fits_a_bigint() {
        assert_eq!(FencingToken::new(7).as_i64(), 7);
        assert_eq!(FencingToken::new(u64::MAX).as_i64(), i64::MAX);
        assert!(FencingToken::new(7).next() > FencingToken::new(7));
    }
}
