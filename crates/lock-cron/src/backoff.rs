//! The pause after a failed request to the store.

use std::time::Duration;

/// The pause before a task is repeated after a failed request to the store.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(500);
