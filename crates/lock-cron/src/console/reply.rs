//! Replies and errors as JSON.

use crate::error::{CronError, CronErrorKind};
use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

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
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, headers, value.to_string()).into_response()
}
