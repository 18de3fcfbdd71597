//! The details of one job: its row, next runs, terms and history.

use super::{
    Access, Console,
    reply::{failed, refuse, reply},
    runs::runs,
    terms::terms,
};
use crate::{error::CronError, job::Job, options::Scope, time::UtcTime};
use axum::{
    extract::{Path, RawQuery, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use lock_core::{__private::lock, LockName};
use serde_json::{Value, json};
use std::sync::Arc;

/// The number of next runs.
const NEXT_RUNS: usize = 5;

pub(super) async fn job(
    State(console): State<Console>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let since = form_urlencoded::parse(query.as_deref().unwrap_or_default().as_bytes())
        .find_map(|(field, value)| (field == "since").then(|| value.into_owned()));
    match details(&console, &name, since.as_deref()).await {
        Ok(Some(details)) => reply(&details),
        Ok(None) => {
            let message = format!("the group has no job `{name}`");
            refuse(StatusCode::NOT_FOUND, "unknown_job", &message).into_response()
        }
        Err(error) => failed(&error),
    }
}

/// Returns the details, without the history if the viewer has this version of the job. Returns `None` for an unknown
/// job.
async fn details(console: &Console, name: &str, since: Option<&str>) -> Result<Option<Value>, CronError> {
    let (cron, name) = (&console.cron, LockName::new(name)?);
    let (now, version, mut details) = {
        let mut view = console.view.lock().await;
        view.refresh(cron).await?;
        let Some(row) = view.rows.get(&name) else { return Ok(None) };
        let version = view.token(row.version);
        let next = row.plan.next_runs(view.now, NEXT_RUNS);
        let details = json!({
            "version": version,
            "now": view.now.as_millis(),
            "actions": console.access == Access::Actions,
            "row": row.json,
            "next": next.into_iter().map(UtcTime::as_millis).collect::<Vec<_>>(),
        });
        (view.now, version, details)
    };
    if since == Some(&version) {
        return Ok(Some(details));
    }
    let local = lock(&cron.shared.registry).jobs.get(&name).cloned();
    let most = usize::try_from(cron.shared.node.terms.history).unwrap_or(usize::MAX);
    let history = match &local {
        Some(job) if job.terms.scope == Scope::PerNode => cron.shared.node.local_history.of(&name, most),
        _ => cron.shared.node.ledger.history(&name, most).await?,
    };
    details["runs"] = runs(&history);
    if let Some(job) = local {
        details["terms"] = terms(&job.terms);
        details["ahead_ms"] = ahead(console, &job, now).await?.into();
    }
    Ok(Some(details))
}

/// Returns the time in milliseconds for which the watermark of a job is in the future, so that nothing starts.
async fn ahead(console: &Console, job: &Arc<Job>, now: UtcTime) -> Result<u64, CronError> {
    let controls = console.cron.controls().await?;
    let registration = job.registration(controls.get(&job.name));
    let watermarks = console.cron.watermarks(vec![registration]).await?;
    let ahead = watermarks.get(&job.name).map(|watermark| watermark.since(now));
    Ok(ahead.map_or(0, |ahead| u64::try_from(ahead.as_millis()).unwrap_or(u64::MAX)))
}
