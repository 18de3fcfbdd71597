//! The stalled shop. Its lease is not renewed, and its payment does not complete until another shop
//! holds the lock. Its write comes too late, and the store must refuse it.
//!
//! No step depends on a guessed duration. The stalled orders start first. The other buyers start
//! once all stalled orders wait at the gate. The gate opens once the store has seen a newer holder
//! for each product. There is always such a holder, because the other buyers order the same
//! products.

use super::{Plan, QuickError, crowd::Journal, sale::open};
use crate::{
    domain::Order,
    fault::{Faults, Gate},
    http::{Admin, router},
    shop::Shop,
    store::Store,
    strategy::Strategy,
};
use lock_core::{FencingToken, LockOptions};
use std::{sync::Arc, time::Duration};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

/// Lease of the stalled shop. As in a paused process, no watchdog renews it.
pub(super) const STALLED_LEASE: Duration = Duration::from_millis(250);

/// Interval at which the stored fence is read.
const LOOK: Duration = Duration::from_millis(5);

/// Time limit for another shop to acquire the lock, much longer than any lease in the sale.
const PATIENCE: Duration = Duration::from_secs(60);

/// The stalled orders, which hold their locks while they wait at the gate.
pub(super) struct Stalled {
    pub(super) shop: Arc<Shop>,
    gate: Arc<Gate>,
    holds: Vec<(Order, FencingToken)>,
}

/// Places the stalled orders, and returns once all of them wait at the gate.
pub(super) async fn begin(
    plan: &Plan,
    store: &Store,
    tasks: &mut JoinSet<Result<(), QuickError>>,
    journal: &Arc<Journal>,
) -> Result<Stalled, QuickError> {
    let gate = Arc::new(Gate::default());
    let options = LockOptions::new().fixed_lease(STALLED_LEASE);
    let faults = Faults::gate(gate.clone());
    let shop = open(plan, store, "stalled-shop".into(), Strategy::Fenced, options, faults, None).await?;
    let routes = router(shop.clone(), Admin::Closed);
    let orders = plan.demand.stalled();
    for order in orders {
        let (routes, journal, order) = (routes.clone(), journal.clone(), order.clone());
        tasks.spawn(async move { journal.place(&routes, &order).await });
    }
    tokio::select! {
        () = gate.arrived(plan.options.stalls) => {}
        Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
            ended??;
            return Err(QuickError::DidNotStall);
        }
    }
    let mut holds = Vec::new();
    for order in orders {
        holds.push((order.clone(), store.fence(&order.sku).await?));
    }
    Ok(Stalled { shop, gate, holds })
}

/// Opens the gate once the store has seen a newer holder for every product.
pub(super) async fn end(stalled: &Stalled, store: &Store) -> Result<(), QuickError> {
    let passed = async {
        for (order, token) in &stalled.holds {
            while store.fence(&order.sku).await? <= *token {
                sleep(LOOK).await;
            }
        }
        Ok(())
    };
    let passed = timeout(PATIENCE, passed).await;
    stalled.gate.open();
    passed.unwrap_or(Err(QuickError::NobodyCame))
}
