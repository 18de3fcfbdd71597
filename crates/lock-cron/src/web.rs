//! A read-only web page with the jobs of this node's group and their runs.

use crate::{
    error::{CronError, CronErrorKind},
    scheduler::{JobInfo, Scheduler},
    time::UtcTime,
};
use axum::{
    Router,
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use lock_core::clock::ServerTime;
use lock_ledger::{Attempt, CatchUp, OpenRun};
use serde_json::{Value, json};

/// The number of next runs in a list.
const NEXT_RUNS: usize = 5;

/// The page only loads from its own server, and no other page may frame it.
const PAGE_MAY: &str = "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; \
                        style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'";

/// Returns a router to nest into your own, behind your own authentication. It changes nothing, but job names and
/// error texts are not public. Use `nest_service`: with `nest` the page has no path that ends with a slash.
///
/// | path | answers |
/// | --- | --- |
/// | path | answer |
/// | `/jobs` | the jobs of this node, with their next and open runs, as JSON |
/// | `/jobs/{name}/history` | the last entries of the history of a job of the group, the newest first, as JSON |
///
/// Failures are `{"error": "…"}`: 404 for an unknown job, 503 when the store does not answer.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let cron = lock_cron::Scheduler::builder(
/// #     lock_core::LockFactory::new(lock_core::MemoryBackend::new()), lock_cron::MemoryLedger::new()).build()?;
/// let app: axum::Router = axum::Router::new().nest_service("/cron", lock_cron::router(cron.clone()));
/// # let _ = app;
/// # Ok(()) }
/// ```
pub fn router(cron: Scheduler) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/jobs", get(jobs))
        .route("/jobs/{name}/history", get(history))
        .with_state(cron)
}

async fn jobs(State(cron): State<Scheduler>) -> Response {
    match list(&cron).await {
        Ok(jobs) => json_response(StatusCode::OK, &Value::Array(jobs)),
        Err(error) => error_response(&error),
    }
}

async fn history(State(cron): State<Scheduler>, Path(name): Path<String>) -> Response {
    let most = usize::try_from(cron.shared.node.terms.history).unwrap_or(usize::MAX);
    match cron.history(&name, most).await {
        Ok(history) => json_response(StatusCode::OK, &history.iter().map(attempt).collect()),
        Err(error) => error_response(&error),
    }
}

async fn list(cron: &Scheduler) -> Result<Vec<Value>, CronError> {
    let jobs = cron.list().await?;
    let now = cron.shared.node.ledger.now();
    let of_job = |view: &JobInfo| {
        let next = view.schedule.after(now.saturating_add(view.ahead_by)).take(NEXT_RUNS);
        job(view, &next.map(|at| at.to_string()).collect::<Vec<_>>())
    };
    Ok(jobs.iter().map(of_job).collect())
}

fn job(view: &JobInfo, next: &[String]) -> Value {
    json!({
        "name": view.name.as_str(),
        "schedule": view.schedule.to_string(),
        "replaced": view.replaced,
        "paused": view.paused,
        "ahead_s": view.ahead_by.as_secs(),
        "next_runs": next,
        "open": view.open.iter().map(open).collect::<Value>(),
    })
}

fn at(time: ServerTime) -> String {
    UtcTime::from(time).to_string()
}

fn open(run: &OpenRun) -> Value {
    json!({
        "run": run.run.to_string(),
        "attempt": run.attempt,
        "node": run.node,
        "token": run.token.get(),
        "started": at(run.started),
        "state": run.state.as_str(),
    })
}

fn attempt(attempt: &Attempt) -> Value {
    let scheduled = attempt.run.scheduled();
    json!({
        "run": attempt.run.to_string(),
        "scheduled": scheduled.map(at),
        "attempt": attempt.attempt,
        "node": attempt.node,
        "token": attempt.token.get(),
        "catch_up": attempt.catch_up == CatchUp::Yes,
        "first": attempt.first.scheduled().map(at),
        "count": attempt.count,
        "started": at(attempt.started),
        "ended": at(attempt.ended),
        "lag_ms": scheduled.filter(|_| attempt.attempt == 1).map(|due| attempt.started.since(due).as_millis() as u64),
        "outcome": attempt.outcome.as_str(),
        "detail": attempt.detail,
    })
}

fn json_response(status: StatusCode, value: &Value) -> Response {
    (
        status,
        [
            (header::CONTENT_TYPE, "application/json"),
            (header::CACHE_CONTROL, "no-store"),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        ],
        value.to_string(),
    )
        .into_response()
}

fn error_response(error: &CronError) -> Response {
    // Without the source: the address of the store is not public.
    let (status, message) = match error.kind() {
        CronErrorKind::UnknownJob => (StatusCode::NOT_FOUND, error.to_string()),
        CronErrorKind::InvalidName => (StatusCode::BAD_REQUEST, error.to_string()),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "the store does not answer".to_owned()),
    };
    json_response(status, &json!({ "error": message }))
}

async fn page() -> Response {
    let headers =
        [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CONTENT_SECURITY_POLICY, PAGE_MAY)];
    (headers, include_str!("page.html")).into_response()
}
