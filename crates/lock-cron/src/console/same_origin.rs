//! The rejection of actions that a page of another site sends with the operator's cookies.

use super::reply::{Refusal, refuse};
use axum::http::{HeaderMap, StatusCode, Uri, header, request::Parts, uri::Authority};

/// Rejects a request that a form or a script of another site could have sent.
pub(super) fn check(parts: &Parts) -> Result<(), Refusal> {
    let content_type = text(&parts.headers, header::CONTENT_TYPE).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        let message = "the content type is not JSON: send the body as application/json";
        return Err(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", message));
    }
    if !is_same_origin(parts) {
        let message = "the request comes from another origin: use this console's page";
        return Err(refuse(StatusCode::FORBIDDEN, "other_origin", message));
    }
    Ok(())
}

/// Browsers send at least one of these headers with each POST, and scripts cannot change them.
fn is_same_origin(parts: &Parts) -> bool {
    if let Some(site) = parts.headers.get("sec-fetch-site") {
        return site == "same-origin";
    }
    let origin = text(&parts.headers, header::ORIGIN).and_then(|origin| origin.parse::<Uri>().ok());
    let origin = origin.as_ref().and_then(Uri::authority);
    // HTTP/2 has the host in the request target.
    let host = text(&parts.headers, header::HOST).or(parts.uri.authority().map(Authority::as_str));
    origin.zip(host).is_some_and(|(origin, host)| origin.as_str().eq_ignore_ascii_case(host))
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
