//! Addresses, which may contain passwords.

use crate::{
    locks::LocksUrl,
    store::{DatabaseUrl, StoreError},
};
use lock_core::LockError;
use std::{convert::Infallible, env, fmt};

/// Environment variables for addresses. Unlike command lines, they are not visible to other users.
const LOCKS: &str = "DEMO_REDIS";
const DATABASE: &str = "DEMO_DATABASE";

pub(super) fn parse_locks(given: Option<Secret>) -> Result<LocksUrl, LockError> {
    Ok(parse_given_locks(given)?.unwrap_or(LocksUrl::MEMORY))
}

pub(super) fn parse_given_locks(given: Option<Secret>) -> Result<Option<LocksUrl>, LockError> {
    given_or(given, LOCKS).map(|text| text.parse()).transpose()
}

pub(super) fn parse_database(given: Option<Secret>) -> Result<Option<DatabaseUrl>, StoreError> {
    given_or(given, DATABASE).map(|text| text.parse()).transpose()
}

fn given_or(given: Option<Secret>, variable: &str) -> Option<String> {
    given.map(|secret| secret.0).or_else(|| env::var(variable).ok())
}

/// Text that may contain a password. It is validated later, because clap's error messages repeat invalid values.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub(super) fn take(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.into()))
    }

    /// Returns the text.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The error for an unusable address.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// The database address is invalid.
    #[error(transparent)]
    Database(#[from] StoreError),
    /// The lock store address is invalid.
    #[error("invalid lock store: set --locks or DEMO_REDIS to `memory` or the URL of a Redis server")]
    Locks(#[from] LockError),
}
