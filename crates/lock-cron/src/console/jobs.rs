//! The jobs as JSON: the list, filtered and searched, and the details of one job.

use super::{
    reply::{failed, refuse, reply},
    row::{Flags, runs},
    view::{Access, Console, Row, View},
};
use crate::{description, error::CronError, job::kind_of, options::JobTerms};
use axum::{
    extract::{Path, RawQuery, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use lock_core::{__private::lock, LockName, clock::UtcTime};
use lock_ledger::Registration;
use serde_json::{Value, json};

/// The default number of rows on a page.
const ROWS: usize = 100;

/// The maximum number of rows on a page.
const MAX_ROWS: usize = 1000;

/// A filter of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Show {
    All,
    Failing,
    Overdue,
    Paused,
    Running,
    Unowned,
}

/// The page of the list that a viewer requests.
struct Query {
    show: Show,
    /// In lower case.
    search: String,
    rows: usize,
    /// The version that the viewer has, or an empty string.
    since: String,
}

/// Returns the list. Only rows that changed since the viewer's version are sent again.
pub(super) async fn list(State(console): State<Console>, RawQuery(query): RawQuery) -> Response {
    let Some(query) = Query::read(&query.unwrap_or_default()) else {
        let message = format!(
            "the query is invalid: set `show` to all, failing, overdue, paused, running or unowned, and `limit` to a \
             number from 1 to {MAX_ROWS}"
        );
        return refuse(StatusCode::BAD_REQUEST, "bad_input", &message).into_response();
    };
    let mut view = console.view.lock().await;
    match view.refresh(&console.cron).await {
        Ok(()) => reply(&answer(&console, &view, &query)),
        Err(error) => failed(&error),
    }
}

fn answer(console: &Console, view: &View, query: &Query) -> Value {
    let count = |show| view.rows.values().filter(|row| show_has(show, row.flags)).count();
    let mut found: Vec<_> = view.rows.iter().filter(|(name, row)| query.has(name, row)).collect();
    // Failing jobs come first. The rest are ordered by name, so that rows do not move with each run.
    found.sort_by_key(|(_, row)| (!row.flags.failing, !row.flags.overdue, !row.flags.unowned));
    let page = found.iter().take(query.rows);
    let known = view.known(&query.since);
    let changed = page.clone().filter(|(_, row)| row.version > known);
    json!({
        "version": view.token(view.version()),
        "now": view.now.as_millis(),
        "group": console.group(),
        "actions": console.access == Access::Actions,
        "nodes": view.nodes(),
        "counts": {
            "all": count(Show::All),
            "failing": count(Show::Failing),
            "overdue": count(Show::Overdue),
            "paused": count(Show::Paused),
            "running": count(Show::Running),
            "unowned": count(Show::Unowned),
        },
        "found": found.len(),
        "order": page.map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        "rows": changed.map(|(_, row)| &row.json).collect::<Vec<_>>(),
    })
}

fn show_has(show: Show, flags: Flags) -> bool {
    match show {
        Show::All => true,
        Show::Failing => flags.failing,
        Show::Overdue => flags.overdue,
        Show::Paused => flags.paused,
        Show::Running => flags.running,
        Show::Unowned => flags.unowned,
    }
}

impl Query {
    fn read(text: &str) -> Option<Self> {
        let mut query = Self { show: Show::All, search: String::new(), rows: ROWS, since: String::new() };
        for (field, value) in form_urlencoded::parse(text.as_bytes()) {
            match &*field {
                "show" => {
                    query.show = match &*value {
                        "all" => Show::All,
                        "failing" => Show::Failing,
                        "overdue" => Show::Overdue,
                        "paused" => Show::Paused,
                        "running" => Show::Running,
                        "unowned" => Show::Unowned,
                        _ => return None,
                    }
                }
                "q" => query.search = value.trim().to_lowercase(),
                "limit" => query.rows = value.parse().ok().filter(|rows| (1..=MAX_ROWS).contains(rows))?,
                "since" => query.since = value.into_owned(),
                _ => {}
            }
        }
        Some(query)
    }

    fn has(&self, name: &LockName, row: &Row) -> bool {
        let found = |text: &str| text.to_lowercase().contains(&self.search);
        show_has(self.show, row.flags)
            && (self.search.is_empty() || found(name.as_str()) || found(&row.plan.words))
    }
}

/// The number of next runs in the details.
const NEXT_RUNS: usize = 5;

/// Returns the details of a job: its row, next runs, terms and history.
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
    let of_kind = || registry.kinds.get(kind_of(name)?).map(|kind| kind.terms.clone());
    registry.jobs.get(name).map(|job| job.terms.clone()).or_else(of_kind)
}

/// Returns the number of milliseconds by which a job's watermark is in the future. Until then, no scheduled run starts.
async fn ahead(console: &Console, registration: Registration, now: UtcTime) -> Result<u64, CronError> {
    let watermarks = console.cron.watermarks(vec![registration]).await?;
    let ahead = watermarks.values().next().map(|watermark| watermark.since(now));
    Ok(ahead.map_or(0, |ahead| u64::try_from(ahead.as_millis()).unwrap_or(u64::MAX)))
}
