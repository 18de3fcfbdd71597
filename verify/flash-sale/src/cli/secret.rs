//! Addresses, which may contain passwords.

use crate::{
    addresses::{DatabaseUrl, Databases, InvalidDatabase, LocksUrl},
    fleet::ShopCommand,
};
use distlock::LockError;
use std::{convert::Infallible, env, fmt};

/// Returns the lock store, if one is given as an option or in the environment.
pub(super) fn parse_locks(given: Option<Secret>) -> Result<Option<LocksUrl>, UsageError> {
    Ok(given_or(given, ShopCommand::LOCKS).map(|text| text.parse()).transpose()?)
}

/// Returns the database server of a run, if one is given as an option or in the environment.
pub(super) fn parse_database(given: Option<Secret>) -> Result<Option<DatabaseUrl>, UsageError> {
    Ok(given_or(given, ShopCommand::DATABASE).map(|text| text.parse()).transpose()?)
}

/// Returns the databases, if they are given as options or in the environment.
pub(super) fn parse_databases(
    shop: Option<Secret>,
    payments: Option<Secret>,
) -> Result<Option<Databases>, UsageError> {
    let given = (given_or(shop, ShopCommand::DATABASE), given_or(payments, ShopCommand::PAYMENTS));
    match given {
        (None, None) => Ok(None),
        (Some(shop), Some(payments)) => {
            Ok(Some(Databases { shop: shop.parse()?, payments: payments.parse()? }))
        }
        _ => Err(UsageError::OneDatabase),
    }
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
    /// A database address is invalid.
    #[error(transparent)]
    Database(#[from] InvalidDatabase),
    /// Only one of the databases is given.
    #[error(
        "--database and --payments belong together: the shops and the payment provider each have a database"
    )]
    OneDatabase,
    /// The lock store address is invalid.
    #[error("invalid lock store: set --locks or SHOP_LOCKS to `memory` or the URL of a Redis server")]
    Locks(#[from] LockError),
}
