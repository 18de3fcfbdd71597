//! The signals that end a command.

use std::process::ExitCode;

/// Waits for Ctrl-C, or on Unix also SIGTERM, and returns the signal's exit code.
pub(super) async fn asked_to_stop() -> ExitCode {
    #[cfg(unix)]
    if let Ok(mut term) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        return tokio::select! {
            _ = tokio::signal::ctrl_c() => ExitCode::from(130),
            _ = term.recv() => ExitCode::from(143),
        };
    }
    let _ = tokio::signal::ctrl_c().await;
    ExitCode::from(130)
}
