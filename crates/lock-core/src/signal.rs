//! The signals that ask a process to end.

use std::{future::Future, io};
#[cfg(unix)]
use {
    signal_hook::{
        consts::{SIGINT, SIGTERM},
        flag,
    },
    std::sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    tokio::signal::unix::{SignalKind, signal},
};

/// Listens for the signals that terminate this process, and returns a future that completes at the first one.
///
/// On Unix these are SIGTERM, which Kubernetes, systemd and Docker send, and SIGINT (Ctrl-C); elsewhere only
/// Ctrl-C. The handlers are installed when this function is called, so a signal is not missed before the
/// first poll.
///
/// On Unix, a second signal ends the process immediately, with the status 128 + its number (143 or 130), even if the
/// program hangs or its runtime is blocked. Its locks are then free when their leases expire. A program that calls this
/// function again after the first signal receives the second one as well, and the third one ends it.
///
/// Shut down a server in this order: it stops accepting requests, its handlers finish, its jobs and elections end, and
/// [`LockFactory::shutdown`](crate::LockFactory::shutdown) releases what is still held.
///
/// ```no_run
/// # #[tokio::main] async fn main() -> std::io::Result<()> {
/// # let locks = lock_core::LockFactory::new(lock_core::MemoryBackend::new());
/// let shutdown = lock_core::shutdown_signal()?;
/// shutdown.await;
/// println!("waiting for the releases; a second signal ends the process");
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
/// The future is cancel safe. After it is dropped, the first signal has no effect, and the second one ends the process.
pub fn shutdown_signal() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    // Before tokio's handlers, so that the first signal is noted when the future completes. If it were noted later, and
    // the program had called this function again by then, its next signal would end it.
    #[cfg(unix)]
    end_at_the_second()?;
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

/// Ends the process at the second signal from now on. The handlers of the operating system's signals do this, so that
/// no task and no thread needs to run.
#[cfg(unix)]
fn end_at_the_second() -> io::Result<()> {
    static FIRST_ARRIVED: AtomicBool = AtomicBool::new(false);
    static INSTALLED: OnceLock<Result<(), io::ErrorKind>> = OnceLock::new();
    FIRST_ARRIVED.store(false, Ordering::SeqCst);
    let install = || {
        for signal in [SIGTERM, SIGINT] {
            // The handlers run in this order, so the first signal does not end the process.
            flag::register_conditional_shutdown(signal, 128 + signal, &FIRST_ARRIVED)?;
            flag::register(signal, &FIRST_ARRIVED)?;
        }
        Ok(())
    };
    let installed = INSTALLED.get_or_init(|| install().map_err(|error: io::Error| error.kind()));
    installed.map_err(io::Error::from)
}
