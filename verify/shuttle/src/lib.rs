//! The sources of lock-core under a schedule explorer: `build.rs` makes a copy and patches it.

#![allow(
    missing_docs,
    unreachable_pub,
    reason = "the sources are those of lock-core, which has its own lints"
)]

pub mod explored;
pub mod planting;

use lock_testkit::planted::PlantedBug;
use planting::planted;

include!(concat!(env!("OUT_DIR"), "/lock-core/lib.rs"));
