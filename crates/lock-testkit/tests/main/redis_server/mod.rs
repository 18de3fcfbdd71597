//! A server of the testkit does what a test takes for granted: it is there, it is ours, it is as it was said to be,
//! and it leaves nothing behind.

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
