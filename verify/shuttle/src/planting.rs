//! The planted bug that is switched on.

use lock_testkit::planted::PlantedBug;
use std::cell::Cell;

// A run has one OS thread, on which all of its threads take turns. Std's thread locals are therefore its globals.
thread_local! {
    static PLANTED: Cell<Option<PlantedBug>> = const { Cell::new(None) };
}

/// Switches on one bug, or none, for this OS thread.
pub fn plant(bug: Option<PlantedBug>) {
    PLANTED.set(bug);
}

/// Returns whether the bug is switched on. Called by patches.
pub(crate) fn planted(bug: PlantedBug) -> bool {
    PLANTED.get() == Some(bug)
}
