//! The reference application: a shop that sells its stock from several servers without overselling, and charges for
//! each order once, or pays back.
//!
//! | file | contains |
//! | --- | --- |
//! | [`domain`] | products, orders and money |
//! | [`database`], [`store`] | SQLite or PostgreSQL, and the statements that need no lock |
//! | [`fenced`] | the statements of a lock's holder: the fenced read and the fenced write |
//! | [`payments`] | the other system, with a database of its own |
//! | [`orders`] | the order of the layers, and the way of an order |
//! | [`reservations`], [`catalogue`], [`problem`] | the other routes, and refusals |
//! | [`jobs`] | expiry, settling, restocking and the audit; the routes of the operators |
//! | [`audit`] | stock, tokens, intents and money, from rows |
//! | [`server`] | health, and the order of the shutdown |
//! | [`naive`] | the same shop without a lock, which oversells |

pub mod audit;
pub mod catalogue;
pub mod database;
pub mod domain;
pub mod fenced;
pub mod jobs;
pub mod naive;
pub mod orders;
pub mod payments;
pub mod problem;
pub mod reservations;
pub mod server;
pub mod store;

use axum::{
    Router,
    routing::{MethodRouter, delete, get, post},
};
use distlock::{LockFactory, tower::DetachedTasks};
use payments::Payments;
use std::{sync::Arc, time::Duration};
use store::Store;

/// A shop. Clones share all of its parts.
#[derive(Debug, Clone)]
pub struct Shop {
    /// The locks, shared by all shops.
    pub locks: LockFactory,
    /// The database, shared by all shops.
    pub store: Store,
    /// The other system.
    pub payments: Arc<dyn Payments>,
    /// The orders that run on after their customers have left.
    pub tasks: DetachedTasks,
    /// The limits of time.
    pub terms: Terms,
}

/// The limits of time.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// The time that an order waits for the lock of its product; 5 s by default.
    pub wait: Duration,
    /// The time that an order may hold it; 20 s by default. An order that takes longer goes on, and the fence decides.
    pub max_hold: Duration,
    /// The time that an order waits for an answer of the payment provider; 10 s by default.
    pub payment: Duration,
    /// The age at which a job settles an intent; 60 s by default. It is longer than an order runs, so that the job
    /// leaves running orders alone. Nothing breaks if it is shorter.
    pub settle_after: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { wait: seconds(5), max_hold: seconds(20), payment: seconds(10), settle_after: seconds(60) }
    }
}

/// Returns the routes of the customers.
pub fn router(shop: &Shop) -> Router {
    routes(shop, orders::route(shop))
}

fn routes(shop: &Shop, order: MethodRouter<Shop>) -> Router {
    Router::new()
        .route("/products", get(catalogue::list))
        .route("/products/{sku}", get(catalogue::show))
        .route("/products/{sku}/orders", order)
        .route("/products/{sku}/reservations", post(reservations::reserve))
        .route("/reservations/{key}", delete(reservations::cancel))
        .route("/health/live", get(async || "alive"))
        .route("/health/ready", get(server::ready))
        .with_state(shop.clone())
}
