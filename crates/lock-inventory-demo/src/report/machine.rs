//! The description of the machine for the report's footer.

use std::{fs, thread};

/// Returns the processor model, and the number of processors available to this process.
#[must_use]
pub fn processor() -> String {
    let count = thread::available_parallelism().map_or(1, usize::from);
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or(std::env::consts::ARCH, |(_, model)| model.trim());
    format!("{count} × {model}")
}

/// Returns the kernel and its version.
#[must_use]
pub fn kernel() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{} {}", std::env::consts::OS, release.trim()).trim().to_owned()
}
