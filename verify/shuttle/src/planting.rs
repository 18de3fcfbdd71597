//! The planted bug that is switched on.

use lock_testkit::planted::PlantedBug;
use std::cell::Cell;

// A run uses one OS thread, on which all its threads take turns. Its globals are therefore std's thread locals.
thread_local! {
    static PLANTED: Cell<Option<PlantedBug>> = const { Cell::new(None) };
}

/// Switches on one bug, or none, for this OS thread.
pub fn plant(bug: Option<PlantedBug>) {
    PLANTED.set(bug);
}

/// Returns `true` if the bug is switched on. Called by patches.
pub(crate) fn planted(bug: PlantedBug) -> bool {
    PLANTED.get() == Some(bug)
}
