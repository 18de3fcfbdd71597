//! The routes of the dashboard: the page, the stream of snapshots, and the actions.

use super::{
    action::{Action, ActionError, Actions, ServerAction},
    feed::Feed,
    guard::{Reach, guard},
    page,
};
use crate::http::problem::Problem;
use axum::{
    Json, Router,
    extract::{Path, State, rejection::JsonRejection},
    http::{StatusCode, header},
    middleware,
    response::{IntoResponse, Sse, sse},
    routing::{get, post},
};
use futures_util::Stream;
use serde::Deserialize;
use std::convert::Infallible;

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
    page::render(&dashboard.feed.latest())
}

async fn state(State(dashboard): State<Dashboard>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], dashboard.feed.latest().to_string())
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
