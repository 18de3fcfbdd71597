//! The sources of lock-core under a schedule explorer: a copy into which `build.rs` plants bugs, each behind a switch.

#![allow(
    missing_docs,
    unreachable_pub,
    reason = "the sources are those of lock-core, which has its own lints"
)]

include!(concat!(env!("OUT_DIR"), "/lock-core/lib.rs"));
