//! The pause after a failure of the store.

use std::time::Duration;

/// The pause before a task is repeated after a failure of the store.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(500);
