//! Errors from a fleet's processes.

use std::{io, path::PathBuf, process::ExitStatus};

/// A failure of a process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// The process could not be started.
    #[error("could not start {name}")]
    Spawn {
        /// Name of the shop.
        name: String,
        /// Underlying error.
        source: io::Error,
    },
    /// The process exited before it was ready, or was not ready within 60 s.
    #[error("{name} did not become ready; its log ends with:\n{log}")]
    NotReady {
        /// Name of the shop.
        name: String,
        /// The end of the process's log.
        log: String,
    },
    /// The process printed something other than its address.
    #[error("{name} printed `{line}` instead of an address: check that {program} is the same \
        version as this program", program = program.display())]
    NotUnderstood {
        /// Name of the shop.
        name: String,
        /// First line that the process printed.
        line: String,
        /// Path of the program.
        program: PathBuf,
    },
    /// The process did not exit successfully.
    #[error("{name} did not exit successfully ({status}); its log ends with:\n{log}")]
    Ended {
        /// Name of the shop.
        name: String,
        /// Exit status.
        status: ExitStatus,
        /// The end of the process's log.
        log: String,
    },
}
