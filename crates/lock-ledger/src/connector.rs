//! Connectors for stores that provide both locks and a run ledger over the same connections.

use crate::run_ledger::RunLedger;
use async_trait::async_trait;
use lock_core::{LockError, Store, backend::Connector};
use std::sync::Arc;

/// A connector whose stores also keep a run ledger.
#[async_trait]
pub trait LedgerConnector: Connector {
    /// Connects once, for locks and for the ledger.
    ///
    /// # Errors
    /// Returns the same errors as [`Connector::connect`].
    async fn connect_with_ledger(&self, url: &str) -> Result<(Store, Arc<dyn RunLedger>), LockError>;

    /// Connects in the background, like [`Connector::connect_lazy`].
    ///
    /// # Errors
    /// Returns the same errors as [`Connector::connect_lazy`].
    fn connect_with_ledger_lazy(&self, url: &str) -> Result<(Store, Arc<dyn RunLedger>), LockError>;
}
