//! The stalled shop: it holds its lock on a fixed lease, and its payment does not answer until the lock has
//! passed to another shop. Its write comes too late, and the store must refuse it.
//!
//! Nothing here guesses a duration. The stalled orders go first; the crowd enters when all of them hang in their
//! payment; each hangs until the stored fence shows that a later holder has read. The crowd wants the same
//! products, so that somebody comes.

use super::{Book, Counter, SaleError};
use crate::{
    domain::{Order, OrderNumber},
    payment::Stall,
    store::Store,
};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

/// The lease of the stalled shop. No watchdog renews it, as none does in a process that is paused.
pub const STALLED_LEASE: Duration = Duration::from_millis(250);

/// How often the stored fence is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// When somebody must have come at the latest: far beyond any lease here, so that a fault ends the run with a
/// sentence instead of hanging it.
const PATIENCE: Duration = Duration::from_secs(60);

/// An order whose payment is going to hang.
#[derive(Debug)]
pub(super) struct Planned {
    order: Order,
    stall: Arc<Stall>,
}

/// An order whose payment hangs, under a lock with this token.
#[derive(Debug)]
pub(super) struct Hanging {
    order: Order,
    stall: Arc<Stall>,
    token: i64,
}

pub(super) fn none() -> HashMap<OrderNumber, Arc<Stall>> {
    HashMap::new()
}

pub(super) fn plan(orders: &[Order]) -> Vec<Planned> {
    orders.iter().map(|order| Planned { order: order.clone(), stall: Arc::default() }).collect()
}

pub(super) fn by_number(planned: &[Planned]) -> HashMap<OrderNumber, Arc<Stall>> {
    planned.iter().map(|planned| (planned.order.number, Arc::clone(&planned.stall))).collect()
}

/// Places the orders, and returns when all of them hang.
pub(super) async fn begin(
    tasks: &mut JoinSet<Result<(), SaleError>>,
    planned: Vec<Planned>,
    shop: &Arc<Counter>,
    store: &Store,
    book: &Arc<Book>,
) -> Result<Vec<Hanging>, SaleError> {
    for Planned { order, .. } in &planned {
        let (order, shop, book) = (order.clone(), Arc::clone(shop), Arc::clone(book));
        tasks.spawn(async move {
            book.note(&order, shop.sell(&order).await?);
            Ok(())
        });
    }
    let mut hanging = Vec::new();
    for Planned { order, stall } in planned {
        tokio::select! {
            () = stall.called() => {}
            Some(ended) = tasks.join_next() => {
                ended.map_err(SaleError::Task)??;
                return Err(SaleError::DidNotStall { sku: order.sku });
            }
        }
        let token = store.fence(&order.sku).await?;
        hanging.push(Hanging { order, stall, token });
    }
    Ok(hanging)
}

/// Lets each payment answer once somebody else has read under a newer token.
pub(super) async fn end(hanging: Vec<Hanging>, store: Store) -> Result<(), SaleError> {
    for Hanging { order, stall, token } in hanging {
        let passed = async {
            while store.fence(&order.sku).await? <= token {
                sleep(LOOK).await;
            }
            Ok(())
        };
        match timeout(PATIENCE, passed).await {
            Ok(passed) => passed.map_err(SaleError::Store)?,
            Err(_) => return Err(SaleError::NobodyCame { sku: order.sku }),
        }
        stall.answer();
    }
    Ok(())
}
