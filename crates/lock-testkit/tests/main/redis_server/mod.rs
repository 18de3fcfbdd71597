//! Tests of the guarantees on which other tests rely: the server runs, belongs to the test, has the
//! requested configuration, and leaves nothing behind.

mod built;
mod cluster;
mod ending;
mod living;
mod quorum;
mod sentinels;

use crate::soon;
use rustix::process::{Pid, test_kill_process};

fn process(pid: u32) -> Pid {
    Pid::from_raw(pid.try_into().unwrap()).unwrap()
}

fn is_there(pid: u32) -> bool {
    test_kill_process(process(pid)).is_ok()
}
