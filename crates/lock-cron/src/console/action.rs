//! The operator's commands: run now, cancel a run or a backfill, pause, resume, replace the schedule. A guard
//! identifies the operator, and actions that a page of another site sends with the operator's cookies are rejected.

use super::{
    reply::{Refusal, failed, refuse, reply},
    view::Console,
};
use crate::{error::CronError, scheduler::Scheduler};
use axum::{
    body::to_bytes,
    extract::{Path, Request, State},
    http::{HeaderMap, StatusCode, Uri, header, request::Parts, uri::Authority},
    response::{IntoResponse, Response},
};
use futures_util::future::BoxFuture;
use lock_ledger::{PauseNote, RunId};
use serde_json::{Map, Value, json};
use std::{fmt, future::Future, sync::Arc};
use uuid::Uuid;

/// The name of an operator. It is stored with each pause set by the operator, and logged with each
/// action.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Actor(String);

impl Actor {
    /// Creates an actor with the given name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

type Identify = dyn Fn(&Parts) -> BoxFuture<'static, Result<Actor, Response>> + Send + Sync;

/// Identifies the operator of a request, or rejects it.
#[derive(Clone)]
pub(super) struct Guard(Arc<Identify>);

impl Guard {
    pub(super) fn new<G, F>(guard: G) -> Self
    where
        G: Fn(&Parts) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Actor, Response>> + Send + 'static,
    {
        Self(Arc::new(move |parts| Box::pin(guard(parts))))
    }

    async fn identify(&self, parts: &Parts) -> Result<Actor, Response> {
        let identified = (self.0)(parts);
        identified.await
    }
}

/// The maximum length of a body, in bytes.
const MAX_BODY_BYTES: usize = 8 * 1024;

/// A command with its arguments.
enum Action {
    Run,
    Cancel { run: RunId },
    CancelBackfill { id: Uuid },
    Pause { note: String },
    Resume,
    Replace { schedule: String },
    Restore,
}

pub(super) async fn act(
    guard: Guard,
    State(console): State<Console>,
    Path((job, action)): Path<(String, String)>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    if let Err(refusal) = check_same_origin(&parts) {
        return refusal.into_response();
    }
    let actor = match guard.identify(&parts).await {
        Ok(actor) => actor,
        Err(rejection) => return rejection,
    };
    let fields = match to_bytes(body, MAX_BODY_BYTES).await.map(|body| serde_json::from_slice(&body)) {
        Ok(Ok(Value::Object(fields))) => fields,
        _ => {
            let message = format!("the body must be a JSON object of at most {MAX_BODY_BYTES} bytes");
            return refuse(StatusCode::BAD_REQUEST, "bad_input", &message).into_response();
        }
    };
    let action = match Action::read(&action, &fields) {
        Ok(action) => action,
        Err(refusal) => return refusal.into_response(),
    };
    let outcome = action.carry_out(&console.cron, &job, &actor).await;
    // Makes the effect visible to the next viewer.
    console.view.lock().await.outdate();
    match outcome {
        Ok(value) => {
            tracing::info!(cron.job = job, cron.actor = %actor, cron.action = action.word(), "operator action completed");
            reply(&value)
        }
        Err(error) => failed(&error),
    }
}

impl Action {
    fn read(word: &str, fields: &Map<String, Value>) -> Result<Self, Refusal> {
        let text = |field: &str| fields.get(field).and_then(Value::as_str).map(str::to_owned);
        let bad = |field: &str, what: &str| {
            refuse(StatusCode::BAD_REQUEST, "bad_input", &format!("the field `{field}` must be {what}"))
        };
        let string = |field: &str| text(field).ok_or_else(|| bad(field, "a string"));
        match word {
            "run" => Ok(Self::Run),
            "cancel" => {
                let run = text("run").and_then(|run| run.parse().ok());
                run.map(|run| Self::Cancel { run }).ok_or_else(|| bad("run", "the id of a run"))
            }
            "cancel-backfill" => {
                let id = text("backfill").and_then(|id| id.parse().ok());
                id.map(|id| Self::CancelBackfill { id })
                    .ok_or_else(|| bad("backfill", "the id of a backfill"))
            }
            "pause" => Ok(Self::Pause { note: string("note")? }),
            "resume" => Ok(Self::Resume),
            "replace" => Ok(Self::Replace { schedule: string("schedule")? }),
            "restore" => Ok(Self::Restore),
            _ => Err(refuse(StatusCode::NOT_FOUND, "unknown_action", "unknown action")),
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Cancel { .. } => "cancel",
            Self::CancelBackfill { .. } => "cancel-backfill",
            Self::Pause { .. } => "pause",
            Self::Resume => "resume",
            Self::Replace { .. } => "replace",
            Self::Restore => "restore",
        }
    }

    async fn carry_out(&self, cron: &Scheduler, job: &str, actor: &Actor) -> Result<Value, CronError> {
        match self {
            Self::Run => return Ok(json!({ "run": cron.trigger(job).await?.to_string() })),
            Self::Cancel { run } => return Ok(json!({ "cancelled": cron.cancel_run(job, *run).await? })),
            Self::CancelBackfill { id } => {
                return Ok(json!({ "cancelled": cron.withdraw_backfill(job, *id).await? }));
            }
            Self::Pause { note } => {
                let note = PauseNote { actor: actor.name().to_owned(), text: note.clone() };
                cron.pause_with_note(job, note).await?;
            }
            Self::Resume => cron.resume(job).await?,
            Self::Replace { schedule } => cron.replace(job, schedule).await?,
            Self::Restore => cron.restore(job).await?,
        }
        Ok(json!({}))
    }
}

/// Rejects a request that a form or a script of another site could have sent.
fn check_same_origin(parts: &Parts) -> Result<(), Refusal> {
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
