//! A per-product mutex inside the process. Correct only if there is a single process, as on a
//! developer's machine.

use super::{
    sections,
    seller::{SellError, Seller},
};
use crate::domain::{Order, Outcome, Sku};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

/// The mutexes of a process, at most one per product in the catalogue.
#[derive(Debug, Clone, Default)]
pub(super) struct Mutexes(Arc<Mutex<HashMap<Sku, Arc<tokio::sync::Mutex<()>>>>>);

impl Mutexes {
    pub(super) async fn sell(&self, seller: &Seller, order: &Order) -> Result<Outcome, SellError> {
        let mutex = self.of(&order.sku);
        let _guard = mutex.lock().await;
        sections::unfenced(seller, order, None).await
    }

    fn of(&self, sku: &Sku) -> Arc<tokio::sync::Mutex<()>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(sku.clone()).or_default().clone()
    }
}
