//! The list of jobs, filtered and searched. Only rows that changed since the viewer's version are sent again.

use super::{
    Access, Console,
    reply::{failed, refuse, reply},
    row::Flags,
    view::{Row, View},
};
use axum::{
    extract::{RawQuery, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use lock_core::LockName;
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
