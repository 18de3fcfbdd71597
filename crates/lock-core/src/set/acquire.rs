//! The acquisition of a set: one lock after the other, in the order of their names.

use super::{
    guard::{LockSetGuard, give_back},
    losses::Losses,
};
use crate::{acquire::Wait, error::LockError, lock::Lock, name::LockName, owner::Owner};
use std::{sync::Arc, time::Duration};

/// Acquires the locks with these names, using the options and the owner of `template`. If a single attempt finds a lock
/// busy, the inner error is its name.
///
/// On failure, it first releases the locks that it has acquired. A dropped future drops the pending acquire, and then
/// the guards, which the factory's worker releases.
pub(super) async fn acquire_all(
    template: Lock,
    names: Arc<[LockName]>,
    wait: Wait,
) -> Result<Result<LockSetGuard, LockName>, LockError> {
    let wait = begin(&template, wait)?;
    let handle = template.handle();
    let given = template.given_owner();
    let owner = given.unwrap_or_else(|| Owner::new(handle.process, handle.fresh_owner()));
    let mut guards = Vec::with_capacity(names.len());
    let mut losses = Losses::default();
    for name in &*names {
        let acquire = template.acquire_member(name.clone(), owner, wait);
        let acquired = tokio::select! {
            biased;
            acquired = acquire => acquired,
            lost = losses.first() => Err(lost.into()),
        };
        match acquired {
            Ok(Some(guard)) => {
                losses.add(guard.hold());
                guards.push(guard);
            }
            failed => {
                give_back(guards).await;
                return failed.map(|_| Err(name.clone()));
            }
        }
    }
    if let Some(lost) = losses.now() {
        give_back(guards).await;
        return Err(lost.into());
    }
    Ok(Ok(LockSetGuard::new(guards)))
}

/// Turns a waiting time into a deadline that all locks share.
fn begin(template: &Lock, wait: Wait) -> Result<Wait, LockError> {
    let handle = template.handle();
    match wait {
        Wait::For(Duration::ZERO) => Ok(Wait::Once),
        Wait::For(wait) => {
            handle.limits.check_wait(wait)?;
            Ok(Wait::Until(handle.clock.now() + wait))
        }
        Wait::Once | Wait::Until(_) | Wait::Forever => Ok(wait),
    }
}
