//! The shared view of the locks of a set.

use super::{
    losses::{Losses, first_lost},
    lost::MemberLost,
};
use crate::{hold::Hold, name::LockName, owner::Owner, token::FencingToken};
use std::{fmt, future::Future, sync::Arc, time::Duration};

/// A cloneable, read-only view of the locks of a held set. It cannot release them, and may outlive
/// the guard.
#[derive(Clone)]
pub struct SetHold {
    /// Sorted by name; at least one.
    holds: Arc<[Hold]>,
}

impl SetHold {
    pub(super) fn new(holds: Arc<[Hold]>) -> Self {
        Self { holds }
    }

    /// Returns the holds, sorted by name.
    #[must_use]
    pub fn holds(&self) -> &[Hold] {
        &self.holds
    }

    /// Returns the hold of the lock with this name; `None` if the set does not contain it.
    #[must_use]
    pub fn hold_of(&self, name: impl AsRef<str>) -> Option<&Hold> {
        let name = name.as_ref();
        let place = self.holds.binary_search_by(|hold| hold.name().as_str().cmp(name)).ok()?;
        self.holds.get(place)
    }

    /// Returns the names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &LockName> {
        self.holds.iter().map(Hold::name)
    }

    /// Returns the fencing token of the lock with this name; `None` if the set does not contain the name. Tokens
    /// increase per name; tokens of different names cannot be compared.
    #[must_use]
    pub fn fencing_token(&self, name: impl AsRef<str>) -> Option<FencingToken> {
        self.hold_of(name).map(Hold::fencing_token)
    }

    /// Returns the owner of all holds. Acquiring one of the locks with this owner re-enters its hold.
    #[must_use]
    pub fn owner(&self) -> Option<&Owner> {
        self.holds.first().map(Hold::owner)
    }

    /// Returns `true` if every hold is currently valid; see [`Hold::is_held`].
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.holds.iter().all(Hold::is_held)
    }

    /// Returns the time for which all holds stay valid without a further renewal; zero if one has ended.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.holds.iter().map(Hold::remaining).min().unwrap_or_default()
    }

    /// Completes when one of the locks is lost, and returns that loss. It never completes if all are released.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is lost by dropping the future.
    pub fn lost(&self) -> impl Future<Output = MemberLost> + Send + 'static {
        let holds = self.holds.clone();
        async move { holds.iter().cloned().collect::<Losses>().first().await }
    }

    /// Returns the first lost lock in the order of the names, if any. It checks the clock, as
    /// [`is_held`](Self::is_held) does.
    #[doc(hidden)]
    #[must_use]
    pub fn first_lost(&self) -> Option<MemberLost> {
        first_lost(&self.holds)
    }
}

impl fmt::Debug for SetHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SetHold").field(&self.holds).finish()
    }
}
