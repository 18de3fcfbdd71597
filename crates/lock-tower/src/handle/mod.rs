//! The locks of a request, for its handler and for the layer.

#[cfg(feature = "axum")]
mod extract;
mod guard;
mod held;
mod lock_handle;
mod lock_set_handle;
mod missing;
mod status;
mod view;
mod watch;

pub use lock_handle::LockHandle;
pub use lock_set_handle::LockSetHandle;
pub use missing::LockMissing;
pub use status::{LockStatus, Unlocked};
pub use view::LockView;

pub(crate) use guard::RequestGuard;
pub(crate) use held::Held;
pub(crate) use watch::Watch;
