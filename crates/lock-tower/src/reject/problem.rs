//! A refusal as problem details (RFC 9457).

use super::{Rejection, retry};
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use std::fmt::Write;

/// `{"type":"about:blank","title":"Conflict","status":409,"detail":"…","reason":"contended","retry_after_ms":1200,"key_hash":"…"}`
pub(crate) fn problem(rejection: &Rejection) -> Response<Full<Bytes>> {
    let Rejection { reason, status, key, retry_after } = rejection;
    let mut more = format!(",\"reason\":\"{}\"", reason.as_str());
    if let Some(after) = retry_after {
        let _ = write!(more, ",\"retry_after_ms\":{}", after.as_millis());
    }
    if let Some(key) = key {
        let _ = write!(more, ",\"key_hash\":\"{key}\"");
    }
    let mut response = details(*status, reason.detail(), &more);
    if let Some(after) = retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, retry::whole_seconds(*after).into());
    }
    response
}

/// Problem details with `more` members, each with a comma before it.
pub(crate) fn details(status: StatusCode, detail: &str, more: &str) -> Response<Full<Bytes>> {
    let title = status.canonical_reason().unwrap_or("Refused");
    let json = format!(
        "{{\"type\":\"about:blank\",\"title\":\"{title}\",\"status\":{},\"detail\":\"{}\"{more}}}",
        status.as_u16(),
        escaped(detail)
    );
    let mut response = Response::new(Full::from(json));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    // A refusal is about this moment.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// As a JSON string has it; only the details of a user's own function need it.
fn escaped(text: &str) -> String {
    let mut json = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            c if c.is_control() => drop(write!(json, "\\u{:04x}", u32::from(c))),
            c => json.push(c),
        }
    }
    json
}
