//! Events for observers, kept until no mutex is held.

use super::{entry::LockEntry, hold_state::HoldState, shared::Shared};
use crate::{
    backend::BackendError,
    ids::{FencingToken, LeaseId},
    machine::{GrantSource, HoldEnd, Notice, ReleaseAnswer},
    observer::{LockEvent, Notable, ReleaseKind, WakeSource},
    time::Moment,
};
use std::sync::Arc;

pub(super) enum Notification {
    Granted {
        token: FencingToken,
        lease: LeaseId,
        source: GrantSource,
    },
    Ended {
        hold: Arc<HoldState>,
        end: HoldEnd,
        at: Moment,
    },
    Released {
        result: ReleaseAnswer,
        kind: ReleaseKind,
    },
    Wake(WakeSource),
    /// A notice from the machine, with the latest renewal error.
    Notice(Notice, Option<Arc<BackendError>>),
}

impl Shared {
    pub(super) fn notify(&self, entry: &LockEntry, notification: Notification) {
        let name = &entry.name;
        match notification {
            Notification::Granted { token, lease, source } => {
                self.observe(|backend| LockEvent::Granted { backend, name, token, lease, source });
            }
            Notification::Ended { hold, end, at } => {
                let held = at.since(hold.since);
                let (token, lease) = (hold.token, hold.lease());
                self.observe(|backend| LockEvent::Ended { backend, name, token, lease, end, held });
            }
            Notification::Released { result, kind } => {
                self.observe(|backend| LockEvent::GuardReleased {
                    backend,
                    name,
                    outcome: result.ok(),
                    kind,
                });
            }
            Notification::Notice(Notice::Renewal { outcome, took, remaining }, _) => {
                self.observe(|backend| LockEvent::Renewal { backend, name, outcome, took, remaining });
            }
            Notification::Wake(source) => {
                self.observe(|backend| LockEvent::WakeUp { backend, name, source });
            }
            Notification::Notice(Notice::SelfDeadlock { token, waited }, _) => {
                self.observe(|backend| LockEvent::SelfDeadlock { backend, name, token, waited });
            }
            Notification::Notice(Notice::LongWait { waited }, _) => {
                self.log(&Notable::LongWait { name, waited });
            }
            Notification::Notice(Notice::RenewalFailed { token, remaining, failures }, error) => {
                let error = error.as_deref();
                self.observe(|backend| LockEvent::RenewalFailed { backend, name, token, remaining, error });
                self.log(&match failures {
                    1 => Notable::Suspect { name, token, remaining, error },
                    _ => Notable::SuspectStill { error },
                });
            }
        }
    }
}
