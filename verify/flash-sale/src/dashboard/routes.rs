//! The routes of the dashboard: the page, the stream of snapshots, and the actions.

use super::{
    action::{Action, ActionError, Actions, ServerAction},
    feed::Feed,
    guard::{Reach, guard},
};
use crate::problem::Problem;
use axum::{
    Json, Router,
    extract::{Path, State, rejection::JsonRejection},
    http::{
        StatusCode,
        header::{
            CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
        },
    },
    middleware,
    response::{IntoResponse, Sse, sse},
    routing::{get, post},
};
use futures_util::Stream;
use serde::Deserialize;
use std::convert::Infallible;
use uuid::Uuid;

/// The page, a single file that embeds the latest snapshot, so that the first paint is complete.
const PAGE: &str = include_str!("page.html");

/// The state shared by the routes.
#[derive(Debug, Clone)]
struct Dashboard {
    feed: Feed,
    actions: Actions,
}

/// Returns the routes of a dashboard that shows `feed` and sends its actions to `actions`.
pub fn router(feed: Feed, actions: Actions, reach: Reach) -> Router {
    Router::new()
        .route("/", get(show))
        .route("/state", get(state))
        .route("/events", get(events))
        .route("/strategy", post(strategy))
        .route("/load", post(load))
        .route("/servers/{name}/{action}", post(server))
        .layer(middleware::from_fn_with_state(reach, guard))
        .with_state(Dashboard { feed, actions })
}

async fn show(State(dashboard): State<Dashboard>) -> impl IntoResponse {
    render(&dashboard.feed.latest())
}

/// Returns the page with `snapshot` (JSON) embedded. The content security policy allows only the
/// page's own script and no other host.
fn render(snapshot: &str) -> impl IntoResponse + use<> {
    let nonce = Uuid::new_v4().simple().to_string();
    // Only `</` and `<!--` could end the script element, so escape `<` in the JSON.
    let body = PAGE.replace("{{nonce}}", &nonce).replace("{{snapshot}}", &snapshot.replace('<', "\\u003c"));
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    );
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (CONTENT_SECURITY_POLICY, policy),
        (CACHE_CONTROL, "no-store".to_owned()),
        (REFERRER_POLICY, "no-referrer".to_owned()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    (headers, body)
}

async fn state(State(dashboard): State<Dashboard>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], dashboard.feed.latest().to_string())
}

async fn events(
    State(dashboard): State<Dashboard>,
) -> Sse<impl Stream<Item = Result<sse::Event, Infallible>>> {
    Sse::new(dashboard.feed.events())
}

#[derive(Debug, Deserialize)]
struct StrategyBody {
    strategy: String,
}

async fn strategy(
    State(dashboard): State<Dashboard>,
    body: Result<Json<StrategyBody>, JsonRejection>,
) -> Result<StatusCode, Problem> {
    let Json(body) = body?;
    take(&dashboard, Action::Strategy(body.strategy)).await
}

#[derive(Debug, Deserialize)]
struct LoadBody {
    on: bool,
}

async fn load(
    State(dashboard): State<Dashboard>,
    body: Result<Json<LoadBody>, JsonRejection>,
) -> Result<StatusCode, Problem> {
    let Json(body) = body?;
    take(&dashboard, if body.on { Action::StartLoad } else { Action::StopLoad }).await
}

async fn server(
    State(dashboard): State<Dashboard>,
    Path((name, action)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    let action = match action.as_str() {
        "pause" => ServerAction::Pause,
        "kill" => ServerAction::Kill,
        "revive" => ServerAction::Revive,
        _ => return Err(Problem::new(StatusCode::NOT_FOUND, "no-such-action", "use pause, kill or revive")),
    };
    take(&dashboard, Action::Server(name, action)).await
}

async fn take(dashboard: &Dashboard, action: Action) -> Result<StatusCode, Problem> {
    dashboard.actions.take(action).await.map_err(refused)?;
    Ok(StatusCode::NO_CONTENT)
}

fn refused(error: ActionError) -> Problem {
    let (status, kind) = match error {
        ActionError::NoSuchServer(_) => (StatusCode::NOT_FOUND, "no-such-server"),
        ActionError::Strategy(_) => (StatusCode::UNPROCESSABLE_ENTITY, "no-such-strategy"),
        ActionError::Server(_) => (StatusCode::CONFLICT, "not-now"),
        ActionError::Closed => (StatusCode::SERVICE_UNAVAILABLE, "shutting-down"),
    };
    Problem::new(status, kind, error.to_string())
}
