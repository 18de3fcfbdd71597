//! The group's instances. Only those that changed are read again.

use crate::{kind, ledger_client::NO_REVISION, schedule::Schedule};
use lock_core::{LockName, clock::UtcTime};
use lock_ledger::{Instance, Instances};
use std::collections::BTreeMap;

/// The schedules of the instances.
pub(super) struct Definitions {
    /// The revision up to which the instances have been read.
    revision: u64,
    of: BTreeMap<LockName, Definition>,
}

/// The schedule of an instance.
pub(super) struct Definition {
    /// The text in the store.
    pub(super) text: String,
    /// `None` if this version of the program cannot read the text.
    pub(super) schedule: Option<Schedule>,
    /// The time from which `alert_after` is measured before the first success.
    pub(super) since: UtcTime,
}

impl Default for Definitions {
    fn default() -> Self {
        Self { revision: NO_REVISION, of: BTreeMap::new() }
    }
}

impl Definitions {
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn get(&self, name: &LockName) -> Option<&Definition> {
        self.of.get(name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &LockName> {
        self.of.keys()
    }

    /// Applies the instances that changed after the known revision.
    pub(super) fn update(&mut self, read: Instances) {
        let (revision, instances) = match read {
            Instances::Changed { revision, instances, removed } => {
                for name in &removed {
                    self.of.remove(name);
                }
                (revision, instances)
            }
            Instances::All { revision, instances, .. } => {
                self.of.clear();
                (revision, instances)
            }
            _ => return,
        };
        self.revision = revision;
        self.of.extend(instances.into_iter().map(|instance| (instance.name.clone(), defined(instance))));
    }
}

fn defined(instance: Instance) -> Definition {
    let (schedule, since) = (kind::schedule_of(&instance).ok(), kind::counts_from(&instance));
    Definition { text: instance.definition.schedule, schedule, since }
}
