//! The routes of the dashboard: the page, the stream of snapshots, and the actions. Requests with a foreign host and actions
//! from pages of other sites are rejected.

use super::{
    snapshot::Snapshot,
    supervisor::{Action, ActionError, Actions, ServerAction},
};
use crate::problem::Problem;
use axum::{
    Json, Router,
    extract::{Path, Request, State, rejection::JsonRejection},
    http::{
        HeaderMap, Method, StatusCode, Uri, header,
        header::{
            CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
        },
        uri::Authority,
    },
    middleware,
    middleware::Next,
    response::{IntoResponse, Response, Sse, sse},
    routing::{get, post},
};
use futures_util::{Stream, StreamExt, stream};
use serde::Deserialize;
use std::{convert::Infallible, net::IpAddr, sync::Arc, time::Duration};
use tokio::sync::watch;
use uuid::Uuid;

/// The page, a single file that embeds the latest snapshot, so that the first paint is complete.
const PAGE: &str = include_str!("page.html");
/// Delay before a page reconnects.
const RECONNECT_PAUSE: Duration = Duration::from_millis(500);

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

/// The publisher of snapshots. Dropping it ends the stream of every open page.
#[derive(Debug)]
pub struct Publisher(watch::Sender<Arc<str>>);

impl Publisher {
    /// Creates a publisher with the snapshot `first`, and the feed for the pages.
    #[must_use]
    pub fn new(first: &Snapshot) -> (Self, Feed) {
        let (sender, receiver) = watch::channel(json(first));
        (Self(sender), Feed(receiver))
    }

    /// Sends `snapshot` to every page.
    pub fn publish(&self, snapshot: &Snapshot) {
        self.0.send_replace(json(snapshot));
    }
}

/// A feed of snapshots, starting with the current one. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Feed(watch::Receiver<Arc<str>>);

impl Feed {
    /// Returns the latest snapshot as JSON.
    #[must_use]
    pub fn latest(&self) -> Arc<str> {
        self.0.borrow().clone()
    }

    /// Returns a stream of the latest snapshot and all later ones. A page that reads slowly skips
    /// intermediate snapshots.
    fn events(&self) -> impl Stream<Item = Result<sse::Event, Infallible>> + use<> {
        let mut receiver = self.0.clone();
        receiver.mark_changed();
        let hello = sse::Event::default().retry(RECONNECT_PAUSE);
        stream::iter([Ok(hello)]).chain(stream::unfold(receiver, |mut receiver| async move {
            receiver.changed().await.ok()?;
            let json = receiver.borrow_and_update().clone();
            Some((Ok(sse::Event::default().data(json)), receiver))
        }))
    }
}

fn json(snapshot: &Snapshot) -> Arc<str> {
    serde_json::to_string(snapshot).expect("a snapshot serializes to JSON").into()
}

/// The addresses from which the page is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// A loopback address. The `Host` of each request must also be a loopback address, which
    /// protects against DNS rebinding.
    Loopback,
    /// Any address.
    Network,
}

impl Reach {
    /// Returns the reach of a server that listens on `ip`.
    #[must_use]
    pub fn of(ip: IpAddr) -> Self {
        if ip.is_loopback() { Self::Loopback } else { Self::Network }
    }
}

/// Middleware that rejects disallowed requests.
async fn guard(State(reach): State<Reach>, request: Request, next: Next) -> Response {
    match check(reach, request.method(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

fn check(reach: Reach, method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    let host = text(headers, header::HOST);
    if reach == Reach::Loopback && !host.is_some_and(is_loopback) {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "foreign-host",
            "the Host header is not a loopback address: use the address that the program printed",
        ));
    }
    if *method == Method::GET || *method == Method::HEAD {
        return Ok(());
    }
    let kind = text(headers, header::CONTENT_TYPE).unwrap_or_default();
    if kind.split(';').next() != Some("application/json") {
        let detail = "send the body as application/json";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not-json", detail));
    }
    if !is_same_origin(headers, host) {
        let detail =
            "actions are accepted only from this dashboard's own page: send an Origin that matches the Host";
        return Err(Problem::new(StatusCode::FORBIDDEN, "other-origin", detail));
    }
    Ok(())
}

/// Returns `true` if the request comes from a page of the same origin. Browsers send `Sec-Fetch-Site` or `Origin`
/// with each POST, and scripts cannot change either.
fn is_same_origin(headers: &HeaderMap, host: Option<&str>) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin";
    }
    let origin = text(headers, header::ORIGIN).and_then(|origin| origin.parse::<Uri>().ok());
    let authority = origin.as_ref().and_then(Uri::authority).map(Authority::as_str);
    authority.is_some() && authority == host
}

fn is_loopback(host: &str) -> bool {
    host.parse::<Authority>().is_ok_and(|authority| {
        let name = authority.host().trim_start_matches('[').trim_end_matches(']');
        name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    })
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
