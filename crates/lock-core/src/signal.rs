//! The signals that ask a process to end.

use std::{future::Future, io};
#[cfg(unix)]
use tokio::signal::unix::{SignalKind, signal};

/// Listens for the signals that terminate this process, and returns a future that completes at the first one.
///
/// On Unix these are SIGTERM, which Kubernetes, systemd and Docker send, and SIGINT (Ctrl-C); elsewhere only
/// Ctrl-C. The handlers are installed when this function is called, so a signal is not missed before the
/// first poll. From then on, these signals no longer terminate the process: a second one is ignored unless
/// the program listens again.
///
/// Shut down a server in this order: it stops accepting requests, its handlers finish, its jobs and elections end, and
/// [`LockFactory::shutdown`](crate::LockFactory::shutdown) releases what is still held.
///
/// ```no_run
/// # #[tokio::main] async fn main() -> std::io::Result<()> {
/// # let locks = lock_core::LockFactory::new(lock_core::MemoryBackend::new());
/// let shutdown = lock_core::shutdown_signal()?;
/// shutdown.await;
/// locks.shutdown().await;
/// # Ok(()) }
/// ```
///
/// # Errors
/// The operating system's error if a handler cannot be installed.
///
/// # Panics
/// Panics if called outside of a tokio runtime with IO enabled.
///
/// # Cancel safety
/// The future is cancel safe. After it is dropped, a signal is ignored unless the program listens again.
pub fn shutdown_signal() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    #[cfg(unix)]
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    #[cfg(windows)]
    let mut interrupt = tokio::signal::windows::ctrl_c()?;
    Ok(async move {
        #[cfg(unix)]
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        #[cfg(windows)]
        interrupt.recv().await;
    })
}
