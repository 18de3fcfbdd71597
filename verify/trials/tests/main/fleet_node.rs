//! The nodes of a fleet, and the length of the trials.

use crate::support::node;
use lock_trials::process::Process;

/// Returns `true` in long runs, on an otherwise idle machine, in which figures are asserted.
pub(crate) fn long() -> bool {
    std::env::var_os("LOCK_LONG").is_some()
}

/// Starts a node of the group `fleet`, and waits until its job or its kind is registered.
pub(crate) fn fleet_node(url: &str, lease_ms: u64, words: &[&str]) -> Process {
    let mut node = node(url, lease_ms, &[&["cron", "fleet"], words].concat());
    node.expect("ready");
    node
}
