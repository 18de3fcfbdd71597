//! The trials: real locks on real servers under faults, counted and measured.
//!
//! `cargo test --release -p lock-trials --test trials` prints a table of the faults, their number, and the worst
//! observations. With `LOCK_LONG=1` in the environment, it repeats the faults as often as in `docs/fault-injection.md`.
//! An argument selects the trials with that text in their names; `LOCK_TEST_SEED` repeats their random choices.
//!
//! Trials run one at a time, so that they do not affect each other's measurements.

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
mod elected;
mod endings;
mod handed_over;
mod isolated;
mod killed;
mod late;
mod lost;
mod paid;
mod partitioned;
mod paused;
mod permits;
mod queues;
mod quorum;
mod refereed;
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
    // First, because memory that other trials left in the allocator would hide a leak.
    ("soak", soak::soak),
    ("killed_holders", killed::killed_holders),
    ("killed_chains", chains::killed_chains),
    ("bypassed_waiters", bypassed::bypassed_waiters),
    ("paused_holders", paused::paused_holders),
    ("suspended_machines", paused::suspended_machines),
    ("dropped_acquires", dropped::dropped_acquires),
    ("lost_replies", lost::lost_replies),
    ("late_acquires", late::late_acquires),
    ("killed_subscribers", handed_over::killed_subscribers),
    ("tokens_over_lost_data", tokens::tokens_over_lost_data),
    ("partitions", partitioned::partitions),
    ("isolated_servers", isolated::isolated_servers),
    ("clock_steps", clocks::clock_steps),
    ("servers_in_trouble", trouble::servers_in_trouble),
    ("elections", elected::elections),
    ("idempotent_requests", paid::idempotent_requests),
    ("drops_in_odd_places", endings::drops_in_odd_places),
    ("refereed_server", refereed::copies_on_a_server),
    ("refereed_quorum", refereed::copies_on_a_quorum),
    ("permits_under_faults", permits::permits_under_faults),
    ("permits_lost_to_crashes", permits::permits_lost_to_crashes),
    ("permits_fair_order", queues::fair_order),
    ("permits_writer_among_readers", queues::writer_among_readers),
    ("permits_dead_heads", queues::dead_heads_and_lost_queues),
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

/// Restarts this program with a single allocator arena. Other arenas of glibc keep memory from a burst of dialling, so
/// a trial that compares memory would see tens of MiB come and go at random.
fn with_one_arena() {
    use std::os::unix::process::CommandExt as _;
    const VARIABLE: &str = "MALLOC_ARENA_MAX";
    if std::env::var_os(VARIABLE).is_none() {
        let program = std::env::current_exe().expect("a running program has a path");
        let error =
            std::process::Command::new(program).args(std::env::args_os().skip(1)).env(VARIABLE, "1").exec();
        panic!("the trials cannot be restarted: {error}");
    }
}
