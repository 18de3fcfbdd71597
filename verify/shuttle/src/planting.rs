//! The bug that is switched on.

use lock_testkit::planted::PlantedBug;
use std::cell::Cell;

// A run has one OS thread, on which all of its threads take turns: std's thread locals are its globals.
thread_local! {
    static PLANTED: Cell<Option<PlantedBug>> = const { Cell::new(None) };
}

/// Switches a bug on, or all off, for this OS thread.
pub fn plant(bug: Option<PlantedBug>) {
    PLANTED.set(bug);
}

/// Returns whether the bug is switched on. Patches ask.
pub(crate) fn planted(bug: PlantedBug) -> bool {
    PLANTED.get() == Some(bug)
}
