//! A candidate: this process in one election.

use super::{options::ElectionOptions, role::Role};
use crate::{driver::Handle, error::LockError, factory::LockFactory, lock::Lock};
use tokio::sync::{Mutex, MutexGuard, Notify, watch};

/// The state that the clones of an election share.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) locks: LockFactory,
    pub(super) lock: Lock,
    pub(super) options: ElectionOptions,
    pub(super) role: watch::Sender<Role>,
    /// Asks the current term, and no later one, to end.
    pub(super) resignation: Notify,
    turn: Mutex<()>,
}

impl Candidate {
    pub(super) fn new(locks: LockFactory, lock: Lock, options: ElectionOptions) -> Result<Self, LockError> {
        options.check().map_err(|error| LockError::from(error).of(lock.name()))?;
        let lock = lock.with_options(options.lock)?;
        let role = watch::Sender::new(Role::Idle);
        Ok(Self { locks, lock, options, role, resignation: Notify::new(), turn: Mutex::default() })
    }

    /// Waits until this call of `until` has its turn. The role is idle again when the turn is dropped.
    pub(super) async fn turn(&self) -> Turn<'_> {
        let turn = self.turn.lock().await;
        self.role.send_replace(Role::Following { leader: None });
        Turn { role: &self.role, _turn: turn }
    }

    pub(super) fn handle(&self) -> &Handle {
        self.locks.handle()
    }
}

/// The turn of one call of `until`: a candidate has one term at a time.
#[must_use]
pub(super) struct Turn<'a> {
    role: &'a watch::Sender<Role>,
    _turn: MutexGuard<'a, ()>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.role.send_replace(Role::Idle);
    }
}
