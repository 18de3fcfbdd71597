//! Tasks that pass through sections of one lock for as long as the process lives.

use super::Failure;
use crate::{
    line::{Report, now},
    referee::Witness,
};
use lock_core::{Lock, LockErrorKind, backend::LeaseId};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::task::JoinSet;

/// The lease of the last hold, and the number of its hand-offs.
type Chain = Arc<Mutex<Option<(LeaseId, u32)>>>;

/// One section in this many takes longer.
const LONG_EVERY: u64 = 8;

/// Runs the tasks, and ends with the first error of any task.
pub(super) async fn run(
    lock: &Lock,
    tasks: usize,
    takes: Duration,
    witness: Option<(Witness, Duration)>,
) -> Result<(), Failure> {
    let (chain, mut running) = (Chain::default(), JoinSet::new());
    for _ in 0..tasks {
        running.spawn(work(lock.clone(), takes, witness.clone(), chain.clone()));
    }
    match running.join_next().await {
        Some(done) => done?,
        None => Ok(()),
    }
}

async fn work(
    lock: Lock,
    takes: Duration,
    witness: Option<(Witness, Duration)>,
    chain: Chain,
) -> Result<(), Failure> {
    loop {
        let guard = match lock.acquire().await {
            Ok(guard) => guard,
            // A busy machine may take longer than the outage budget of a short lease.
            Err(error) if error.kind() == LockErrorKind::Unavailable => continue,
            Err(error) => return Err(error.into()),
        };
        let token = guard.fencing_token().get();
        let passes = passes(&chain, guard.hold().lease_id());
        let inside = witness.as_ref().map(|(witness, lease)| witness.enters(guard.hold(), *lease / 20));
        Report::Inside { token, passes, at: now() }.say();
        if token.is_multiple_of(LONG_EVERY) && !takes.is_zero() {
            tokio::time::sleep(takes).await;
        }
        Report::Left { token, at: now() }.say();
        drop(inside);
        // If the hold was lost in the meantime, the referee judges that.
        let _ = guard.release().await;
    }
}

/// Returns the number of hand-offs of the current lease before this hold.
fn passes(chain: &Chain, lease: LeaseId) -> u32 {
    let mut last = chain.lock().unwrap_or_else(PoisonError::into_inner);
    let passes = match *last {
        Some((before, passes)) if before == lease => passes + 1,
        _ => 0,
    };
    *last = Some((lease, passes));
    passes
}
