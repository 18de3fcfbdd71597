//! The clock of a file: the wall clock at its first use after the machine was started, continued by the clock that
//! counts from then. All processes of the machine agree on it, and steps of the wall clock do not change it.

use lock_core::clock::UtcTime;
use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::SystemTime,
};

/// The clock of the opened file.
#[derive(Default)]
pub(super) struct FileClock {
    /// The time at which the machine was started, in microseconds; 0 until the file is opened.
    started: AtomicU64,
}

impl FileClock {
    /// Sets the time at which the machine was started, as the file has it.
    pub(super) fn set(&self, started: i64) {
        self.started.store(u64::try_from(started).unwrap_or(0), Ordering::Release);
    }

    /// Returns the time of the file, or the time of the wall clock before the file is opened.
    pub(super) fn now(&self) -> UtcTime {
        match self.started.load(Ordering::Acquire) {
            0 => SystemTime::now().into(),
            started => UtcTime::from_micros(started.saturating_add(since_start())),
        }
    }
}

impl fmt::Debug for FileClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FileClock").field(&self.now()).finish()
    }
}

/// Tells the start of this machine, and its clock, from others. `None` on systems where that is not known; there the
/// wall clock is used.
#[cfg(target_os = "linux")]
pub(super) fn start() -> Option<String> {
    let start = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    // A container may have a clock of its own.
    let clock = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
    Some(format!("{} {}", start.trim(), clock.display()))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn start() -> Option<String> {
    None
}

/// Returns the microseconds since the machine was started, also those in which it was suspended.
#[cfg(target_os = "linux")]
pub(super) fn since_start() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_nsec.unsigned_abs() / 1_000
}

#[cfg(not(target_os = "linux"))]
pub(super) fn since_start() -> u64 {
    0
}
