//! The ids of a process and of a lease, as stores see them, the random numbers that they are drawn from, and fencing
//! tokens.

#[cfg(feature = "__internal")]
use std::sync::Arc;
use std::{fmt, num::NonZeroU64};
use uuid::Uuid;

/// The v4 UUID of a [`LockFactory`](crate::LockFactory), and so of a process. It distinguishes the holders of different
/// processes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(Uuid);

impl ProcessId {
    /// Draws a random id from the operating system.
    ///
    /// # Panics
    /// If the operating system has no random numbers.
    #[must_use]
    pub fn random() -> Self {
        // `Uuid::new_v4` would draw from a reserve if the program turns on a feature of that crate.
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the operating system has random numbers");
        Self(uuid::Builder::from_random_bytes(bytes).into_uuid())
    }

    /// Creates the id with this UUID, for example in a test that repeats a run.
    #[must_use]
    pub fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// Returns the UUID.
    #[must_use]
    pub fn as_uuid(&self) -> &Uuid {
        &self.0
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Debug for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The part of a lease id that is drawn for every acquire, when it is sent: 63 random bits from the operating system.
///
/// It is neither counted nor drawn ahead: a cloned virtual machine or a forked process would continue with the same
/// UUID and the same numbers, find "its own" lease in the store, and be granted a lock that its twin holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct LeaseNumber(
    /// The number plus 1, so that an `Option` of it needs no more room.
    NonZeroU64,
);

impl LeaseNumber {
    /// Creates a number from the lower 63 of these bits, so that it fits the `i64` in which Java keeps a thread id.
    #[must_use]
    pub fn new(bits: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(bits & (i64::MAX as u64)))
    }

    /// Returns the number, at most `i64::MAX`.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0.get() - 1
    }
}

/// The id under which a store records the holder of a lock: `<process uuid>:<number>`. Every acquire uses a new one,
/// except a re-entry, which uses that of its hold. Owners do not reach the store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseId {
    process: ProcessId,
    number: LeaseNumber,
}

impl LeaseId {
    /// Creates the lease id `number` of `process`.
    #[must_use]
    pub fn new(process: ProcessId, number: LeaseNumber) -> Self {
        Self { process, number }
    }

    /// Parses the id of a stored lease. Returns `None` for a holder that is not of this library.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (process, number) = text.split_once(':')?;
        let process = Uuid::try_parse(process).ok()?;
        let number: i64 = number.parse().ok()?;
        Some(Self::new(ProcessId(process), LeaseNumber::new(number.try_into().ok()?)))
    }

    /// Returns the process that drew the id.
    #[must_use]
    pub fn process(&self) -> ProcessId {
        self.process
    }

    /// Returns the number.
    #[must_use]
    pub fn number(&self) -> LeaseNumber {
        self.number
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.process, self.number.get())
    }
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

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
/// Tokens can decrease in two cases: the store loses its counter *while* its clock is behind the last token; or an etcd
/// cluster or a ZooKeeper ensemble is restored from a backup or replaced, since its tokens count its changes.
///
/// In all other stores, tokens are microseconds of the store's clock as long as it moves forward, so they keep increasing when a store loses
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

/// The source of lease ids and jitter: the operating system, or, in a simulation, a seed.
///
/// No numbers are kept for later: a copy of the process would have them as well.
#[derive(Clone, Default)]
pub enum Random {
    /// The operating system.
    #[default]
    System,
    /// The numbers that this function returns.
    #[cfg(feature = "__internal")]
    Given(Arc<dyn Fn() -> u64 + Send + Sync>),
}

impl Random {
    /// Draws a number that nothing else has, not even a copy of this process. Returns `None` if the operating system
    /// has no random numbers.
    pub fn unique(&self) -> Option<u64> {
        match self {
            Self::System => getrandom::u64().ok(),
            #[cfg(feature = "__internal")]
            Self::Given(number) => Some(number()),
        }
    }

    /// Returns `true` if the numbers come from a seed.
    pub(crate) fn is_given(&self) -> bool {
        !matches!(self, Self::System)
    }

    /// Draws a number that spreads times. Without random numbers, nothing is spread.
    pub fn jitter(&self) -> u64 {
        self.unique().unwrap_or_default()
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random")
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

    #[test]
    fn lease_id_is_parsed_from_its_text() {
        let lease = LeaseId::new(ProcessId::random(), LeaseNumber::new(u64::MAX));
        assert_eq!(lease.number().get(), i64::MAX as u64, "it fits the i64 of a Java thread id");
        assert_eq!(LeaseId::parse(&lease.to_string()), Some(lease));
    }

    #[test]
    fn foreign_holders_are_recognised() {
        for text in [
            "",
            "x",
            "a:b",
            "67e55044-10b1-426f-9247-bb680e5fe0c8:-4",
            "67e55044-10b1-426f-9247-bb680e5fe0c8",
        ] {
            assert_eq!(LeaseId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn copy_draws_other_numbers() {
        let original = Random::default();
        original.unique();
        let copy = original.clone();
        let drawn = |random: &Random| (0..64).filter_map(|_| random.unique()).collect::<Vec<_>>();
        let (of_original, of_copy) = (drawn(&original), drawn(&copy));
        assert_eq!(of_original.len(), 64);
        assert!(of_original.iter().all(|number| !of_copy.contains(number)));
    }
}
