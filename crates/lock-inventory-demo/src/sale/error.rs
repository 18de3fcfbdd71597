//! How a sale fails; an oversold piece is no failure here, the audit tells it.

use super::ProcessEnd;
use crate::{domain::Sku, shop::ShopError, store::StoreError};
use lock_core::LockName;
use std::io;
use tokio::task::JoinError;

/// A sale that did not come to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaleError {
    /// There is no temporary directory for the database.
    #[error("could not create a temporary directory for the database")]
    Directory(#[source] io::Error),
    /// The database failed.
    #[error("the database of the sale failed")]
    Store(#[from] StoreError),
    /// A shop could not answer an order.
    #[error("an order was not answered")]
    Shop(#[from] ShopError),
    /// The process of a shop could not be started.
    #[error("could not start this program again as a shop: allow more processes")]
    Spawn(#[source] io::Error),
    /// The process of a shop did not come to its end.
    #[error("the process of shop {shop} did not come to the end of the sale")]
    Process {
        /// The shop's number.
        shop: u32,
        /// Why.
        #[source]
        why: ProcessEnd,
    },
    /// A buyer's task ended early.
    #[error("a buyer's task ended early")]
    Task(#[source] JoinError),
    /// An order that was to stall was answered before.
    #[error("the order for {sku} was answered before it could stall")]
    DidNotStall {
        /// Its product.
        sku: Sku,
    },
    /// An order stalled, and the lock never passed to another shop.
    #[error("the order for {sku} stalled past its lease, and no other shop got the lock")]
    NobodyCame {
        /// Its product.
        sku: Sku,
    },
    /// A shop closed and could not give back a lock.
    #[error("a shop closed and left {name} locked")]
    LeftLocked {
        /// Its name.
        name: LockName,
    },
}
