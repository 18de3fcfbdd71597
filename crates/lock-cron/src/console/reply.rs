//! The responses of the console: the page, and replies and errors as JSON.

use crate::error::{CronError, CronErrorKind};
use axum::{
    http::{
        StatusCode,
        header::{
            CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
        },
    },
    response::{IntoResponse, Response},
};
use lock_core::backend::ProcessId;
use serde_json::{Value, json};

/// The page: one file without a build step, which loads nothing from another host.
const PAGE: &str = include_str!("page.html");

/// Returns the page. Its content security policy lets the browser contact no other host and run only this page's
/// script.
pub(super) async fn page() -> impl IntoResponse {
    let nonce = ProcessId::random().as_uuid().simple().to_string();
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
    (headers, PAGE.replace("{{nonce}}", &nonce))
}

pub(super) fn reply(value: &Value) -> Response {
    with_status(StatusCode::OK, value)
}

/// The rejection of a request, with its kind as a word.
pub(super) struct Refusal {
    status: StatusCode,
    kind: &'static str,
    message: String,
}

pub(super) fn refuse(status: StatusCode, kind: &'static str, message: &str) -> Refusal {
    Refusal { status, kind, message: message.to_owned() }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        with_status(self.status, &json!({ "error": self.message, "kind": self.kind }))
    }
}

pub(super) fn failed(error: &CronError) -> Response {
    // The alternate form includes the store's address, which is not public.
    let refusal = match error.kind() {
        CronErrorKind::UnknownJob => refuse(StatusCode::NOT_FOUND, "unknown_job", &error.to_string()),
        CronErrorKind::InvalidName => refuse(StatusCode::BAD_REQUEST, "invalid_name", &format!("{error:#}")),
        CronErrorKind::InvalidSchedule => {
            refuse(StatusCode::BAD_REQUEST, "invalid_schedule", &format!("{error:#}"))
        }
        CronErrorKind::InvalidOptions => {
            refuse(StatusCode::BAD_REQUEST, "invalid_options", &error.to_string())
        }
        CronErrorKind::TooManyTriggers => {
            refuse(StatusCode::TOO_MANY_REQUESTS, "too_many_triggers", &error.to_string())
        }
        _ => {
            refuse(StatusCode::SERVICE_UNAVAILABLE, "store", "a request to the store failed: try again later")
        }
    };
    refusal.into_response()
}

fn with_status(status: StatusCode, value: &Value) -> Response {
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, headers, value.to_string()).into_response()
}
