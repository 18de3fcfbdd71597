//! The check of the runtime in which connections are to live.

use lock_core::{
    __private::{has_timer, no_runtime},
    LockError,
};
use tokio::runtime::Handle;

/// Returns the current runtime, if it has timers and IO.
///
/// # Errors
/// [`LockErrorKind::NoRuntime`](lock_core::LockErrorKind::NoRuntime) otherwise.
pub(crate) fn current() -> Result<Handle, LockError> {
    let why = match Handle::try_current() {
        Err(_) => "there is none",
        Ok(_) if !has_timer() => "it has no timers: build it with `enable_all`",
        Ok(_) if !has_io() => "it has no IO: build it with `enable_all`",
        Ok(runtime) => return Ok(runtime),
    };
    Err(no_runtime(format!("connections need a tokio runtime, and {why}")))
}

/// A runtime without IO reveals this only by panicking.
#[cfg(unix)]
fn has_io() -> bool {
    std::panic::catch_unwind(|| drop(tokio::net::UnixStream::pair())).is_ok()
}

#[cfg(not(unix))]
fn has_io() -> bool {
    true
}
