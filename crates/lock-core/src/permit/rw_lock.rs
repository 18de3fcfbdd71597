//! The read-write lock.

use super::{ReadLock, WriteLock};
use crate::{backend::Share, error::LockError, name::LockName, options::LockOptions};

/// A read-write lock by name, returned by [`LockFactory::rw_lock`](crate::LockFactory::rw_lock) without any IO: many
/// readers, or one writer, in all processes. Cheap to clone.
///
/// Waiters are served in the order of their arrival: a writer that waits lets no later reader pass.
#[derive(Debug, Clone)]
pub struct RwLock {
    read: ReadLock,
    write: WriteLock,
}

impl RwLock {
    pub(super) fn new(read: ReadLock) -> Self {
        let write = read.with_kind(Share::MAX_LIMIT);
        Self { read, write }
    }

    /// Returns the name of the lock.
    #[must_use]
    pub fn name(&self) -> &LockName {
        self.read.name()
    }

    /// Returns the readers' side.
    #[must_use]
    pub fn read(&self) -> &ReadLock {
        &self.read
    }

    /// Returns the writers' side.
    #[must_use]
    pub fn write(&self) -> &WriteLock {
        &self.write
    }

    /// Returns the options. Modify them and pass them to [`with_options`](Self::with_options).
    pub fn options(&self) -> LockOptions {
        self.read.options()
    }

    /// Returns the same lock with other options for both sides. They replace *all* options of the factory.
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidOptions`](crate::LockErrorKind::InvalidOptions) if they contradict each other or exceed
    /// the limits.
    pub fn with_options(&self, options: LockOptions) -> Result<Self, LockError> {
        Ok(Self::new(self.read.with_options(options)?))
    }
}
