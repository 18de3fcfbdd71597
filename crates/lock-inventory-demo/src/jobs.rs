//! The work that no request asks for, done once in the whole fleet: expired reservations, intents that nobody finished,
//! restocking, the audit. Each run can be repeated, so a run whose shop died is started again.
//!
//! Also the routes of the operators. They belong on a listener that customers cannot reach.

use crate::{
    Shop,
    audit::{Audit, Books},
    catalogue,
    domain::{OrderKey, Quantity, Sku},
    orders::{Holder, lock_of, only},
    problem::{Problem, causes},
    store::{End, StoreError},
};
use axum::{
    Json, Router,
    extract::{
        Path, Request, State,
        rejection::{JsonRejection, PathRejection},
    },
    http::{StatusCode, request::Parts},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::put,
};
use distlock::cron::{
    Actor, CronError, CronErrorKind, OnOrphan, RunContext, RunResult, Schedule, Scheduler, SchedulerBuilder,
    router_with_actions,
};
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime};

/// The kind of the jobs that restock a product.
const RESTOCK: &str = "restock";

/// Registers the jobs of a shop. The scheduler runs when the [server](crate::server) does.
///
/// # Errors
/// Returns [`CronError`] if the builder's options are invalid.
pub fn schedule(shop: &Shop, builder: SchedulerBuilder) -> Result<Scheduler, CronError> {
    let cron = builder.build()?;
    let every = |seconds| Schedule::every(Duration::from_secs(seconds));
    register(&cron, "expire-reservations", every(5)?, shop, expire)?;
    register(&cron, "settle", every(5)?, shop, settle)?;
    register(&cron, "nightly-audit", Schedule::cron("0 3 * * *")?, shop, audit)?;
    register(&cron, "purge-records", every(3600)?, shop, purge)?;
    let shop = shop.clone();
    cron.kind(RESTOCK, move |run| restock(shop.clone(), run))
        .on_orphan(OnOrphan::Retry { max: 3 })
        .register()?;
    Ok(cron)
}

fn register<W>(
    cron: &Scheduler,
    name: &str,
    schedule: Schedule,
    shop: &Shop,
    body: fn(Shop, RunContext) -> W,
) -> Result<(), CronError>
where
    W: Future<Output = RunResult> + Send + 'static,
{
    let shop = shop.clone();
    let job = cron.job(name, schedule, move |run| body(shop.clone(), run));
    job.on_orphan(OnOrphan::Retry { max: 3 }).timeout(Duration::from_secs(300)).register()
}

async fn expire(shop: Shop, run: RunContext) -> RunResult {
    for id in shop.store.reservations_due().await? {
        if run.is_cancelled() {
            break;
        }
        shop.store.end_reservation(&id, End::Expired).await?;
    }
    Ok(())
}

async fn settle(shop: Shop, _: RunContext) -> RunResult {
    Ok(settle_open(&shop, shop.terms.settle_after).await?)
}

/// The error of intents that stay open until the next run.
#[derive(Debug, thiserror::Error)]
pub enum SettleError {
    /// The intents cannot be read.
    #[error("the open intents cannot be read")]
    Store(#[from] StoreError),
    /// Some intents could not be settled. The log says why.
    #[error("{0} open intents could not be settled")]
    Left(usize),
}

/// Settles the intents that have been open for longer than this.
///
/// # Errors
/// Returns [`SettleError`] if some are left.
///
/// # Cancel safety
/// Dropping this leaves intents open. Repeat the call.
pub async fn settle_open(shop: &Shop, older_than: Duration) -> Result<(), SettleError> {
    let mut left = 0;
    for (key, sku) in shop.store.open_intents(older_than).await? {
        if let Err(error) = settle_one(shop, &key, &sku).await {
            left += 1;
            let error: &(dyn std::error::Error + 'static) = &*error;
            tracing::warn!(order = %key, error, "intent not settled");
        }
    }
    if left == 0 { Ok(()) } else { Err(SettleError::Left(left)) }
}

/// One lock for each intent, so that each order has a fencing token of its own, and customers wait for one order at
/// most.
async fn settle_one(shop: &Shop, key: &OrderKey, sku: &Sku) -> RunResult {
    let guard = lock_of(shop, sku)?.acquire_timeout(shop.terms.wait).await?;
    let holder = Holder { shop, token: guard.fencing_token(), attempt: None };
    let outcome = holder.resume(sku, key).await;
    let _ = guard.release().await; // no `?`: the outcome is known, and the lease ends by itself
    let outcome = outcome?;
    tracing::info!(order = %key, ?outcome, "intent settled");
    Ok(())
}

async fn audit(shop: Shop, _: RunContext) -> RunResult {
    let books = Books::read(&shop.store, &*shop.payments).await?;
    let audit = Audit::of(&books);
    tracing::info!(%audit, "books audited");
    match &audit.breaches[..] {
        [] => Ok(()),
        [first, ..] => Err(format!("{} rules are broken, first: {first}", audit.breaches.len()).into()),
    }
}

async fn purge(shop: Shop, _: RunContext) -> RunResult {
    shop.store.records().purge(SystemTime::now()).await?;
    Ok(())
}

/// The payload of a restocking.
#[derive(Serialize, Deserialize)]
struct Delivery {
    sku: Sku,
    quantity: Quantity,
}

/// The run's id is the primary key of its effect, so a second attempt finds it.
async fn restock(shop: Shop, run: RunContext) -> RunResult {
    let Delivery { sku, quantity } = run.payload()?;
    Ok(shop.store.restock(&sku, &run.id().to_string(), quantity).await?)
}

/// Returns the routes of the operators: the console of the jobs at `/jobs`, and the restocking of products.
pub fn operators(shop: &Shop, cron: &Scheduler) -> Router {
    let restocking = put(plan).delete(cancel).route_layer(middleware::from_fn(guarded));
    let console = router_with_actions(cron.clone(), |head: &Parts| {
        std::future::ready(operator(head).map_err(IntoResponse::into_response))
    });
    Router::new()
        .route("/products/{sku}/restocking", restocking)
        .with_state((shop.clone(), cron.clone()))
        .nest_service("/jobs", console)
}

async fn guarded(request: Request, next: Next) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    operator(&head)?;
    Ok(next.run(Request::from_parts(head, body)).await)
}

/// Reads the operator from a header that the proxy in front sets, and removes if a client sent it.
fn operator(head: &Parts) -> Result<Actor, Problem> {
    let nobody = "the header `x-forwarded-user` is missing: put an authenticating proxy in front";
    let name = only(&head.headers, "x-forwarded-user");
    name.map(Actor::new).ok_or_else(|| Problem::new(StatusCode::UNAUTHORIZED, "no-operator", nobody))
}

/// The body of a restocking.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanBody {
    schedule: String,
    quantity: Quantity,
}

async fn plan(
    State((shop, cron)): State<(Shop, Scheduler)>,
    sku: Result<Path<Sku>, PathRejection>,
    body: Result<Json<PlanBody>, JsonRejection>,
) -> Result<StatusCode, Problem> {
    let (Path(sku), Json(PlanBody { schedule, quantity })) = (sku?, body?);
    catalogue::offer(&shop.store, &sku).await?;
    let schedule = Schedule::cron(&schedule).map_err(CronError::from)?;
    let id = sku.to_string();
    cron.add(RESTOCK, &id, schedule, &Delivery { sku, quantity }).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn cancel(
    State((_, cron)): State<(Shop, Scheduler)>,
    sku: Result<Path<Sku>, PathRejection>,
) -> Result<StatusCode, Problem> {
    cron.remove(RESTOCK, sku?.as_str()).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl From<CronError> for Problem {
    fn from(error: CronError) -> Self {
        match error.kind() {
            CronErrorKind::Store => Self::unavailable("locks", &error),
            _ => Self::new(StatusCode::BAD_REQUEST, "bad-restocking", causes(&error)),
        }
    }
}
