//! Uses locks once, forks, and continues in both processes; see `lock_trials::twins`.

use clap::Parser;
use lock_trials::{node::Failure, twins};

/// Single-threaded, since only the forking thread continues in the child.
fn main() -> Result<(), Failure> {
    twins::run(&twins::Cli::parse())
}
