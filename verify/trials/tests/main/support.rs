//! Helpers for starting processes under test.

use lock_trials::{cli::Client, process::Process};
use std::process::Command;

/// Starts `lock-node` with these arguments.
pub(crate) fn node(url: &str, lease_ms: u64, words: &[&str]) -> Process {
    Process::start(&mut command(url, lease_ms, words))
}

/// Returns the command without starting it.
pub(crate) fn command(url: &str, lease_ms: u64, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lock-node"));
    let (lease, client) = (lease_ms.to_string(), Client::of_this_run().name());
    command.args(["--lease", &lease, "--client", client, url]).args(words);
    command
}
