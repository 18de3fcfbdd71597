//! Process failures in a fleet.

use std::{io, path::PathBuf, process::ExitStatus};

/// A failure of a process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// The process could not be started.
    #[error("could not start {name}")]
    Spawn {
        /// The shop.
        name: String,
        /// The cause.
        source: io::Error,
    },
    /// The process exited before it was ready, or was not ready within 60 s.
    #[error("{name} did not become ready; its log:\n{log}")]
    NotReady {
        /// The shop.
        name: String,
        /// The end of the process's log.
        log: String,
    },
    /// The process printed something other than its address.
    #[error("{name} printed `{line}` instead of an address: check that {program} is this version of \
        the program", program = program.display())]
    NotUnderstood {
        /// The shop.
        name: String,
        /// First line that the process printed.
        line: String,
        /// Path of the program.
        program: PathBuf,
    },
    /// The process exited with an error.
    #[error("{name} exited with {status}; its log:\n{log}")]
    Ended {
        /// The shop.
        name: String,
        /// Exit status.
        status: ExitStatus,
        /// The end of the process's log.
        log: String,
    },
}
