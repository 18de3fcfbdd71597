//! The operator's commands: run now, cancel a run or a backfill, pause, resume, replace the schedule.

use super::{
    Console,
    actor::{Actor, Guard},
    reply::{Refusal, failed, refuse, reply},
    same_origin,
};
use crate::{error::CronError, scheduler::Scheduler};
use axum::{
    body::to_bytes,
    extract::{Path, Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use lock_ledger::{PauseNote, RunId};
use serde_json::{Map, Value, json};
use uuid::Uuid;

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
    if let Err(refusal) = same_origin::check(&parts) {
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
