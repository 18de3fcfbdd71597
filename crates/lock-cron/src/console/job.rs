//! The details of one job: its row, next runs, terms and history.

use super::{
    Access, Console,
    reply::{failed, refuse, reply},
    runs::runs,
};
use crate::{description, error::CronError, kind, terms::JobTerms};
use axum::{
    extract::{Path, RawQuery, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use lock_core::{__private::lock, LockName, clock::UtcTime};
use lock_ledger::Registration;
use serde_json::{Value, json};

/// The number of next runs in the details.
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

/// Returns the details, without the history if the viewer already has this version of the job. Returns `None` for an
/// unknown job.
async fn details(console: &Console, name: &str, since: Option<&str>) -> Result<Option<Value>, CronError> {
    let (cron, name) = (&console.cron, LockName::new(name)?);
    let (now, version, registration, described, mut details) = {
        let mut view = console.view.lock().await;
        view.refresh(cron).await?;
        let Some(row) = view.rows.get(&name) else { return Ok(None) };
        let version = view.token(row.version);
        let described = (row.terms.clone(), row.plan.clock_rows());
        let next = row.plan.next_runs(view.now, NEXT_RUNS);
        let details = json!({
            "version": version,
            "now": view.now.as_millis(),
            "group": console.group(),
            "nodes": view.nodes(),
            "actions": console.access == Access::Actions,
            "row": row.json,
            "next": next.into_iter().map(UtcTime::as_millis).collect::<Vec<_>>(),
        });
        (view.now, version, row.plan.registration(&name), described, details)
    };
    if since == Some(&version) {
        return Ok(Some(details));
    }
    let most = usize::try_from(cron.shared.node.terms.history).unwrap_or(usize::MAX);
    details["runs"] = runs(&cron.shared.node.ledger.history(&name, most).await?);
    let (described, of_clock) = described;
    let terms = known_terms(console, &name).map(|terms| description::terms(&terms));
    // Another node described it, possibly one that runs a later version of the program.
    let terms = terms.or_else(|| serde_json::from_str(&described).ok());
    details["terms"] = terms.map_or(Value::Null, |terms| terms.into_iter().chain(of_clock).collect());
    if let Some(registration) = registration {
        details["ahead_ms"] = ahead(console, registration, now).await?.into();
    }
    Ok(Some(details))
}

/// Returns the terms of a job or of an instance's kind, if this node has them.
fn known_terms(console: &Console, name: &LockName) -> Option<JobTerms> {
    let registry = lock(&console.cron.shared.registry);
    let of_kind = || registry.kinds.get(kind::kind_of(name)?).map(|kind| kind.terms.clone());
    registry.jobs.get(name).map(|job| job.terms.clone()).or_else(of_kind)
}

/// Returns the number of milliseconds by which a job's watermark is in the future. Until then, no scheduled run starts.
async fn ahead(console: &Console, registration: Registration, now: UtcTime) -> Result<u64, CronError> {
    let watermarks = console.cron.watermarks(vec![registration]).await?;
    let ahead = watermarks.values().next().map(|watermark| watermark.since(now));
    Ok(ahead.map_or(0, |ahead| u64::try_from(ahead.as_millis()).unwrap_or(u64::MAX)))
}
