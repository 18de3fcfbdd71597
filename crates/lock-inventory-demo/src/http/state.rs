//! `GET /state` and `GET /events`.

use super::{App, problem::Problem};
use crate::shop::FRESH;
use axum::{
    extract::State,
    http::header,
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::{Stream, StreamExt, stream};
use std::convert::Infallible;
use tokio::time::{Interval, interval};

pub(super) async fn now(State(shop): State<App>) -> Result<Response, Problem> {
    let kind = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    Ok((kind, shop.snapshot().await?.to_string()).into_response())
}

/// Streams the state five times a second until the client disconnects or the server drains. While
/// the database does not respond, the stream contains only comments, which keep the connection
/// open.
pub(super) async fn stream(State(shop): State<App>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let closed = shop.closed();
    let snapshots = stream::unfold((shop, interval(FRESH)), async |(shop, mut ticks): (App, Interval)| {
        loop {
            ticks.tick().await;
            if let Ok(state) = shop.snapshot().await {
                return Some((Ok(Event::default().data(&*state)), (shop, ticks)));
            }
        }
    });
    Sse::new(snapshots.take_until(Box::pin(closed))).keep_alive(KeepAlive::default())
}
