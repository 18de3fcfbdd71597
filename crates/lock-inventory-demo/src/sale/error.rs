//! How a sale fails; an oversold piece is no failure here, the audit tells it.

use super::ProcessEnd;
use crate::{domain::Sku, shop::ShopError, store::StoreError};
use lock_core::LockName;
use std::{error::Error, fmt, io};
use tokio::task::JoinError;

/// A sale that did not come to its end.
#[derive(Debug)]
#[non_exhaustive]
pub enum SaleError {
    /// There is no temporary directory for the database.
    Directory(io::Error),
    /// The database failed.
    Store(StoreError),
    /// A shop could not answer an order.
    Shop(ShopError),
    /// The process of a shop could not be started.
    Spawn(io::Error),
    /// The process of a shop did not come to its end.
    Process {
        /// The shop's number.
        shop: u32,
        /// Why.
        why: ProcessEnd,
    },
    /// A buyer's task ended early.
    Task(JoinError),
    /// An order that was to stall was answered before.
    DidNotStall {
        /// Its product.
        sku: Sku,
    },
    /// An order stalled, and the lock never passed to another shop.
    NobodyCame {
        /// Its product.
        sku: Sku,
    },
    /// A shop closed and could not give back a lock.
    LeftLocked {
        /// Its name.
        name: LockName,
    },
}

impl From<StoreError> for SaleError {
    fn from(e: StoreError) -> Self {
        Self::Store(e)
    }
}

impl From<ShopError> for SaleError {
    fn from(e: ShopError) -> Self {
        Self::Shop(e)
    }
}

impl fmt::Display for SaleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(_) => write!(f, "could not create a temporary directory for the database"),
            Self::Store(_) => write!(f, "the database of the sale failed"),
            Self::Shop(_) => write!(f, "an order was not answered"),
            Self::Spawn(_) => write!(f, "could not start this program again as a shop: allow more processes"),
            Self::Process { shop, .. } => {
                write!(f, "the process of shop {shop} did not come to the end of the sale")
            }
            Self::Task(_) => write!(f, "a buyer's task ended early"),
            Self::DidNotStall { sku } => write!(f, "the order for {sku} was answered before it could stall"),
            Self::NobodyCame { sku } => {
                write!(f, "the order for {sku} stalled past its lease, and no other shop got the lock")
            }
            Self::LeftLocked { name } => write!(f, "a shop closed and left {name} locked"),
        }
    }
}

impl Error for SaleError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Directory(error) => Some(error),
            Self::Store(error) => Some(error),
            Self::Shop(error) => Some(error),
            Self::Spawn(error) => Some(error),
            Self::Process { why, .. } => Some(why),
            Self::Task(error) => Some(error),
            Self::DidNotStall { .. } | Self::NobodyCame { .. } | Self::LeftLocked { .. } => None,
        }
    }
}
