//! The referee: a separate process that records who holds which lock under which token and until when, and judges
//! once all have disconnected.
//!
//! [`Witness`]es in the holders' processes report to it in lines over TCP. So it keeps the reports of a holder that was
//! killed, and a suspended holder cannot retract its belief.

mod bench;
mod witness;

pub use bench::preside;
pub use witness::{Inside, Testimony, Witness};

use rustix::time::{ClockId, clock_gettime};

/// Returns the boot-time clock in µs. All processes of a machine share it, and steps of the wall clock do not affect
/// it.
#[must_use]
pub fn boot() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_nsec.unsigned_abs() / 1_000
}
