//! Failures of processes.

use std::{io, path::PathBuf, process::ExitStatus};

/// A process of the fleet failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// The system did not start it.
    #[error("could not start {name}")]
    Spawn {
        /// The shop.
        name: String,
        /// The cause.
        source: io::Error,
    },
    /// It ended before it was ready.
    #[error("{name} ended before it was ready; its log says:\n{log}")]
    NotReady {
        /// The shop.
        name: String,
        /// The end of its log.
        log: String,
    },
    /// It printed something else than its address.
    #[error("{name} printed no address but `{line}`: is {program} this version of the program?", program = program.display())]
    NotUnderstood {
        /// The shop.
        name: String,
        /// Its first line.
        line: String,
        /// The program.
        program: PathBuf,
    },
    /// It did not end in order.
    #[error("{name} ended with {status}; its log says:\n{log}")]
    Ended {
        /// The shop.
        name: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of its log.
        log: String,
    },
}
