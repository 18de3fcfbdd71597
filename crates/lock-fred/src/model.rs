//! What fuzzers may reach.

use crate::{
    answer::{Raw, renewals},
    keys::Keys,
};
use fred::types::Value;
use lock_core::{BackendError, LockName};

/// Lock, counter and channel.
#[must_use]
pub fn keys(name: &LockName) -> [String; 3] {
    let Keys { lock, counter, channel } = Keys::of(name);
    [lock, counter, channel]
}

/// Reads a reply in every way, and says how that failed.
#[must_use]
pub fn read(value: Value, renewed: usize) -> Vec<BackendError> {
    fn failure<T>(answer: Result<T, BackendError>) -> Option<BackendError> {
        answer.err()
    }
    let raw = || Raw::read("fuzz", value.clone());
    let mut failures = vec![
        failure(raw().and_then(Raw::acquired)),
        failure(raw().and_then(Raw::released)),
        failure(raw().and_then(Raw::inspected)),
        failure(raw().and_then(Raw::forced)),
        failure(raw().and_then(Raw::probed)),
    ];
    failures.push(failure(renewals(value.clone(), renewed)));
    failures.into_iter().flatten().collect()
}
