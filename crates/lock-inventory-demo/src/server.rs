//! The server: health, and the order of the shutdown.

use crate::{Shop, jobs};
use axum::{Router, extract::State, http::StatusCode};
use distlock::{
    cron::{CronError, Scheduler},
    tower::DrainTimeout,
};
use std::{future::IntoFuture, io, time::Duration};
use tokio::{
    net::TcpListener,
    sync::watch,
    task::JoinError,
    time::{error::Elapsed, timeout},
};

/// The time that open requests have to end, and then the orders whose customers have left.
const GRACE: Duration = Duration::from_secs(10);

/// The addresses of a server.
#[derive(Debug)]
pub struct Listeners {
    /// For customers.
    pub customers: TcpListener,
    /// For operators. Keep it out of reach of customers.
    pub operators: TcpListener,
}

/// The error of a server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A request did not end in time.
    #[error("requests were still open after the grace period")]
    Open(#[from] Elapsed),
    /// A listener failed.
    #[error("the server failed")]
    Server(#[from] io::Error),
    /// The scheduler failed.
    #[error("the jobs failed")]
    Jobs(#[from] CronError),
    /// An order did not end in time.
    #[error("orders were still running after the grace period")]
    Orders(#[from] DrainTimeout),
    /// A part panicked.
    #[error("a part of the server panicked")]
    Panic(#[from] JoinError),
}

/// Serves until `stop` completes, and then shuts down. `customers` is a [`router`](crate::router).
///
/// # Errors
/// Returns [`ServeError`] if a part fails, or does not end in time. The locks are released in any case.
///
/// # Cancel safety
/// Dropping this leaves the listeners and jobs running in the background. Complete `stop` instead.
pub async fn serve(
    shop: Shop,
    customers: Router,
    cron: Scheduler,
    listeners: Listeners,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let (stopping, _) = watch::channel(false);
    let stopped = || {
        let mut stopping = stopping.subscribe();
        async move { drop(stopping.wait_for(|stopping| *stopping).await) }
    };
    let operators = axum::serve(listeners.operators, jobs::operators(&shop, &cron));
    let operators = tokio::spawn(operators.with_graceful_shutdown(stopped()).into_future());
    let customers = axum::serve(listeners.customers, customers);
    let customers = tokio::spawn(customers.with_graceful_shutdown(stopped()).into_future());
    let (jobs_stop, ended) = (stopped(), stopping.clone());
    let jobs = tokio::spawn(async move {
        let jobs = cron.run_until(jobs_stop).await;
        ended.send_replace(true);
        jobs
    });

    // By themselves, the jobs only end if they fail. A shop without jobs would settle nothing, so it ends as well.
    tokio::select! {
        () = stop => {}
        () = stopped() => {}
    }
    // 1. Accept no further requests, and let open ones end. 2. At the same time, hand the jobs over to another shop.
    stopping.send_replace(true);
    let (served, jobs) = tokio::join!(timeout(GRACE, customers), jobs);
    operators.abort(); // open pages of the console keep nothing waiting
    // 3. Let the orders end whose customers have left.
    let drained = shop.tasks.drain(GRACE).await;
    // 4. Release the locks, last of all that may need one. This also stops orders that did not end in time.
    let report = shop.locks.shutdown().await;
    if !report.is_clean() {
        tracing::warn!(?report, "locks not confirmed as released; their leases end by themselves");
    }
    // 5. Close the database.
    shop.store.database().close().await;
    served???;
    jobs??;
    Ok(drained?)
}

/// `GET /health/ready`: the shop can take orders. The reasons are for operators, so they are only logged.
pub(crate) async fn ready(State(shop): State<Shop>) -> (StatusCode, &'static str) {
    let locks = shop.locks.health().await;
    if !locks.is_healthy() {
        tracing::warn!(%locks, "not ready");
        return (StatusCode::SERVICE_UNAVAILABLE, "the store of the locks does not answer");
    }
    if let Err(error) = sqlx::query("select 1").execute(shop.store.pool()).await {
        tracing::warn!(%error, "not ready");
        return (StatusCode::SERVICE_UNAVAILABLE, "the database does not answer");
    }
    (StatusCode::OK, "ready")
}
