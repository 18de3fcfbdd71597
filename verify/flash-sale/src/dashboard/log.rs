//! The event log, which describes the changes between snapshots.

use super::snapshot::{LogEntry, LogKind, ServerInfo, ServerState, Snapshot};
use std::collections::VecDeque;

/// Maximum number of entries.
const MAX_ENTRIES: usize = 100;

/// The latest events.
#[derive(Debug, Default)]
pub(super) struct EventLog {
    entries: VecDeque<LogEntry>,
    latest: u64,
}

impl EventLog {
    /// Adds an entry for the time `at`, in Unix milliseconds.
    fn add(&mut self, at: u64, kind: LogKind, text: String) {
        self.latest += 1;
        self.entries.push_back(LogEntry { id: self.latest, at, kind, text });
        if self.entries.len() > MAX_ENTRIES {
            self.entries.pop_front();
        }
    }

    /// Adds the first entries, one per server in `first`.
    pub(super) fn begin(&mut self, at: u64, first: &Snapshot) {
        for (kind, text) in first.servers.iter().filter_map(|server| process_change(None, server)) {
            self.add(at, kind, text);
        }
    }

    /// Adds an entry for each change from `before` to `after`.
    pub(super) fn compare(&mut self, at: u64, before: &Snapshot, after: &Snapshot) {
        for (kind, text) in changes(before, after) {
            self.add(at, kind, text);
        }
    }

    /// Returns the entries, oldest first.
    pub(super) fn entries(&self) -> Vec<LogEntry> {
        self.entries.iter().cloned().collect()
    }
}

fn changes(before: &Snapshot, after: &Snapshot) -> Vec<(LogKind, String)> {
    let mut lines = Vec::new();
    for server in &after.servers {
        let earlier = before.servers.iter().find(|earlier| earlier.name == server.name);
        lines.extend(process_change(earlier, server));
    }
    if after.strategy != before.strategy {
        lines.push((
            LogKind::Info,
            format!("Strategy changed from {} to {}", before.strategy, after.strategy),
        ));
    }
    if after.load.on != before.load.on {
        lines.push((LogKind::Info, if after.load.on { "Load started" } else { "Load stopped" }.into()));
    }
    if after.leader != before.leader {
        lines.push(match &after.leader {
            Some(leader) => (LogKind::Info, format!("{leader} leads the scheduler")),
            None => (LogKind::Warning, "No server leads the scheduler".into()),
        });
    }
    let stale = after.totals.stale.saturating_sub(before.totals.stale);
    if stale > 0 {
        lines.push((
            LogKind::Warning,
            format!("{} refused by the fencing token", counted(stale, "stale write")),
        ));
    }
    for product in &after.products {
        let earlier = before.products.iter().find(|earlier| earlier.sku == product.sku);
        let more = product.sold_twice.saturating_sub(earlier.map_or(0, |earlier| earlier.sold_twice));
        if more > 0 {
            lines.push((LogKind::Fault, format!("{}: {} sold twice", product.sku, counted(more, "unit"))));
        }
        let more = product.lost.saturating_sub(earlier.map_or(0, |earlier| earlier.lost));
        if more > 0 {
            lines.push((LogKind::Fault, format!("{}: {} lost", product.sku, counted(more, "deduction"))));
        }
        if product.stock == 0 && earlier.is_some_and(|earlier| earlier.stock > 0) {
            lines.push((LogKind::Info, format!("{} is sold out", product.sku)));
        }
    }
    for job in &after.jobs {
        let earlier = before.jobs.iter().find(|earlier| earlier.name == job.name);
        // Successful runs are omitted, because they would displace all other entries.
        if earlier.is_some_and(|earlier| (&earlier.last, &earlier.outcome) != (&job.last, &job.outcome))
            && let Some(outcome) = job.outcome.as_deref().filter(|outcome| *outcome != "succeeded")
        {
            lines.push((LogKind::Fault, format!("Job {}: {}", job.name, outcome.replace('_', " "))));
        }
    }
    lines
}

fn process_change(earlier: Option<&ServerInfo>, now: &ServerInfo) -> Option<(LogKind, String)> {
    use ServerState::{Dead, Paused, Running};
    let name = &now.name;
    let started = || (LogKind::Good, format!("{name} started, pid {}", now.pid.unwrap_or(0)));
    let Some(earlier) = earlier else { return Some(started()) };
    match (earlier.state, now.state) {
        (Dead, Running) => Some(started()),
        (Running, Running) if earlier.pid != now.pid => Some(started()),
        (Paused, Running) => Some((LogKind::Good, format!("{name} resumed"))),
        (_, Paused) if earlier.state != Paused => Some((LogKind::Warning, format!("{name} is paused"))),
        (_, Dead) if earlier.state != Dead => Some((LogKind::Fault, format!("{name} is dead"))),
        _ => None,
    }
}

fn counted(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
