//! The trials: real locks on real servers, through everything that goes wrong, counted and measured.
//!
//! `cargo test --release -p lock-trials --test trials` prints a table of what was done, how often, and the worst that
//! was seen. With `LOCK_LONG=1` in the environment it does so as often as the table in the README says. A part of a
//! name as argument chooses the trials that have it; `LOCK_TEST_SEED` repeats their random choices.
//!
//! They run one after the other: what is measured is not to be disturbed by another trial.

#![allow(clippy::unwrap_used, reason = "trials are tests")]

mod figure;
mod stage;
#[path = "../main/support.rs"]
mod support;

mod acknowledged;
mod bypassed;
mod chains;
mod clocks;
mod cluster;
mod cycle;
mod dropped;
mod endings;
mod handed_over;
mod killed;
mod late;
mod lost;
mod partitioned;
mod paused;
mod quorum;
mod sections;
mod sentinel;
mod soak;
mod tokens;
mod trouble;

use figure::{Table, Trial};
use libtest_mimic::Arguments;
use std::{process::ExitCode, sync::Arc};

/// In the order of the table.
const TRIALS: &[(&str, Trial)] = &[
    // First: what others leave to the allocator would hide a leak.
    ("soak", soak::soak),
    ("killed_holders", killed::killed_holders),
    ("killed_chains", chains::killed_chains),
    ("bypassed_waiters", bypassed::bypassed_waiters),
    ("paused_holders", paused::paused_holders),
    ("dropped_acquires", dropped::dropped_acquires),
    ("lost_replies", lost::lost_replies),
    ("late_acquires", late::late_acquires),
    ("killed_subscribers", handed_over::killed_subscribers),
    ("tokens_over_lost_data", tokens::tokens_over_lost_data),
    ("partitions", partitioned::partitions),
    ("clock_steps", clocks::clock_steps),
    ("servers_in_trouble", trouble::servers_in_trouble),
    ("drops_in_odd_places", endings::drops_in_odd_places),
    ("topology_quorum_races", quorum::split_votes),
    ("topology_quorum_quarantine", quorum::forgetful_nodes),
    ("topology_quorum_failures", quorum::failing_nodes),
    ("topology_sentinel", sentinel::fail_overs),
    ("topology_replicas", acknowledged::cut_off_masters),
    ("topology_cluster", cluster::moved_slot_and_dead_master),
];

fn main() -> ExitCode {
    with_one_arena();
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let table = Arc::new(Table::of_this_run());
    let trials = TRIALS
        .iter()
        .map(|&(name, trial)| {
            let table = table.clone();
            libtest_mimic::Trial::test(name, move || {
                table.fill(trial);
                Ok(())
            })
        })
        .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    table.print();
    conclusion.exit_code()
}

/// Starts this program again with one arena of the allocator: glibc's others keep what a burst of dialling used once, and a
/// trial that compares memory would see tens of MiB come and go by chance.
fn with_one_arena() {
    use std::os::unix::process::CommandExt as _;
    const VARIABLE: &str = "MALLOC_ARENA_MAX";
    if std::env::var_os(VARIABLE).is_none() {
        let program = std::env::current_exe().expect("a running program has a path");
        let error =
            std::process::Command::new(program).args(std::env::args_os().skip(1)).env(VARIABLE, "1").exec();
        panic!("the trials cannot be started again: {error}");
    }
}
