//! Rejection of requests with a foreign host, and of actions from another site's page.

use crate::problem::Problem;
use axum::{
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, Uri, header, uri::Authority},
    middleware::Next,
    response::{IntoResponse, Response},
};
use std::net::IpAddr;

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
pub(super) async fn guard(State(reach): State<Reach>, request: Request, next: Next) -> Response {
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
