//! The console: a page with a group's jobs and their runs, and its routes.

mod action;
mod jobs;
mod reply;
mod row;
mod view;

pub use action::Actor;

use crate::scheduler::Scheduler;
use action::Guard;
use axum::{
    Router,
    http::request::Parts,
    response::Response,
    routing::{get, post},
};
use std::{future::Future, sync::Arc};
use view::{Access, Console};

/// Returns the console, a page with all jobs of the group and their runs. It is read-only; see [`router_with_actions`].
///
/// Nest the router into your own router, behind your own authentication, because job names and
/// error texts are not public. Use `nest_service`: with `nest`, the page is not served at a path
/// that ends with a slash. Any scheduler of the group can be used, even one without jobs that never
/// runs.
///
/// | path | response |
/// | --- | --- |
/// | | the page; `#job=name` links to a job |
/// | `/jobs` | the jobs of the group, as JSON; `?show=failing`, `overdue`, `paused`, `running` or `unowned`, `?q=text`, `?limit=n` |
/// | `/jobs/{name}` | a job, its next runs and its history by run, as JSON |
///
/// Errors are returned as `{"error": "…", "kind": "…"}`: 400 for an invalid query, 404 for an
/// unknown job, 503 if a request to the store fails.
///
/// All viewers of a router share its store reads. The router reads at most once a second, and
/// spends at most a tenth of the time reading.
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
    routes().with_state(Console { cron, view: Arc::default(), access: Access::ReadOnly })
}

/// Returns the console like [`router`], with actions: run now, cancel an open run or a backfill,
/// pause with a note, resume, replace the schedule and restore it.
///
/// `guard` identifies the operator of each action from the head of the request, or rejects it with
/// a response. Requests from other sites' pages are rejected before the guard runs. An action must
/// be a POST with the content type `application/json`, and with either a `Sec-Fetch-Site` of
/// `same-origin` or an `Origin` of the same host. A proxy in front must preserve the `Host` header.
///
/// | path | body | response |
/// | --- | --- | --- |
/// | `/jobs/{name}/run` | `{}` | `{"run": "trigger:<uuid>"}` |
/// | `/jobs/{name}/cancel` | `{"run": "trigger:<uuid>"}` | `{"cancelled": true}`, or `false` if that run is not open |
/// | `/jobs/{name}/cancel-backfill` | `{"backfill": "<uuid>"}` | `{"cancelled": true}`, or `false` if it has no runs left |
/// | `/jobs/{name}/pause` | `{"note": "…"}` | `{}` |
/// | `/jobs/{name}/resume` | `{}` | `{}` |
/// | `/jobs/{name}/replace` | `{"schedule": "0 3 * * *"}` | `{}` |
/// | `/jobs/{name}/restore` | `{}` | `{}` |
///
/// ```
/// use axum::{http::{StatusCode, request::Parts}, response::IntoResponse};
/// use lock_cron::Actor;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let cron = lock_cron::Scheduler::builder(
/// #     lock_core::LockFactory::new(lock_core::MemoryBackend::new()), lock_cron::MemoryLedger::new()).build()?;
/// let guard = |request: &Parts| {
///     let user = request.headers.get("x-forwarded-user").and_then(|user| user.to_str().ok());
///     let actor = user.map(Actor::new).ok_or_else(|| StatusCode::UNAUTHORIZED.into_response());
///     async move { actor }
/// };
/// let app: axum::Router = axum::Router::new().nest_service("/cron", lock_cron::router_with_actions(cron.clone(), guard));
/// # let _ = app;
/// # Ok(()) }
/// ```
pub fn router_with_actions<G, F>(cron: Scheduler, guard: G) -> Router
where
    G: Fn(&Parts) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Actor, Response>> + Send + 'static,
{
    let guard = Guard::new(guard);
    let act = move |console, path, request| action::act(guard.clone(), console, path, request);
    let routes = routes().route("/jobs/{name}/{action}", post(act));
    routes.with_state(Console { cron, view: Arc::default(), access: Access::Actions })
}

fn routes() -> Router<Console> {
    Router::new()
        .route("/", get(reply::page))
        .route("/jobs", get(jobs::list))
        .route("/jobs/{name}", get(jobs::job))
}
