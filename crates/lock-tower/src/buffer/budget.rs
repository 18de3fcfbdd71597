//! A limit on the total bytes of all uploads.

use bytes::Bytes;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// A byte budget shared by a layer, its clones and all of their requests.
#[derive(Debug, Clone)]
pub(super) struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    total: usize,
    used: AtomicUsize,
}

impl Budget {
    pub(super) fn new(total: usize) -> Self {
        Self(Arc::new(Shared { total, used: AtomicUsize::new(0) }))
    }

    pub(super) fn total(&self) -> usize {
        self.0.total
    }

    pub(super) fn reservation(&self) -> Reservation {
        Reservation { budget: self.clone(), bytes: 0 }
    }
}

/// The bytes reserved for one upload, returned to the budget on drop.
#[derive(Debug)]
pub(super) struct Reservation {
    budget: Budget,
    bytes: usize,
}

impl Reservation {
    /// Takes the whole reservation and leaves an empty one.
    pub(super) fn take(&mut self) -> Self {
        Self { bytes: std::mem::take(&mut self.bytes), budget: self.budget.clone() }
    }

    /// Enlarges the reservation, unless the budget would be exceeded.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Exceeded> {
        let Shared { total, used } = &*self.budget.0;
        let add = |used: usize| used.checked_add(bytes).filter(|used| used <= total);
        used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).map_err(|_| Exceeded)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Counts these bytes until their last clone is dropped.
    pub(super) fn keep_for(self, data: Bytes) -> Bytes {
        match data.is_empty() {
            true => data,
            false => Bytes::from_owner(Counted { data, _reservation: self }),
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The error returned if the budget has too few bytes left.
pub(super) struct Exceeded;

/// Bytes and their share of the budget; the bytes are dropped first.
struct Counted {
    data: Bytes,
    _reservation: Reservation,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}
