//! The referee: a process of its own that hears who is inside with which token and until when, and judges when all
//! have left.
//!
//! It is told in lines over TCP, by [`Witness`]es in the processes that hold. So it remembers what a holder said before
//! it was killed, and a holder that stands still cannot take back what it believed.

mod bench;
mod witness;

pub use bench::preside;
pub use witness::{Inside, Testimony, Witness};

use rustix::time::{ClockId, clock_gettime};

/// The boot-time clock in microseconds: one for all processes of a machine, and no step of the wall clock moves it.
#[must_use]
pub fn boot() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_nsec.unsigned_abs() / 1_000
}
