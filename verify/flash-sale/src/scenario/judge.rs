//! The judgement of a scenario: the timeline of lock holders, the writes that were refused, and the expectations that failed.

use super::script::{Script, Trouble, Verdict};
use crate::{
    audit::SaleAudit,
    load::{Entry, Outcome},
    report::{Fault, Hold, ServerShare, StaleWrite},
};
use lock_inventory_demo::audit::Breach;
use std::time::Duration;

/// Minimum fraction of the stock that must be sold.
const SOLD: f64 = 0.95;
/// Minimum share of the requests for each of four shops.
const SHARE: f64 = 0.15;

/// The data on which a verdict is based.
#[derive(Debug)]
pub(super) struct Evidence<'a> {
    pub(super) script: &'a Script,
    pub(super) audit: &'a SaleAudit,
    pub(super) servers: &'a [ServerShare],
    pub(super) entries: &'a [Entry],
    pub(super) stale: &'a [StaleWrite],
    /// `true` if a holder was killed and no sale followed.
    pub(super) ended_with_holder: bool,
}

/// Returns every failed expectation.
pub(super) fn failures(seen: &Evidence<'_>) -> Vec<String> {
    let (script, audit) = (seen.script, &seen.audit.rows);
    let mut failures = Vec::new();
    match script.verdict {
        Verdict::Oversells if audit.oversold == 0 => {
            failures.push("it did not oversell, so this control proves nothing".to_owned());
        }
        Verdict::Oversells => {}
        Verdict::Exact | Verdict::SellsOut if audit.oversold > 0 => {
            failures.push(format!("it sold {} units that did not exist", audit.oversold));
        }
        Verdict::SellsOut if (audit.sold as f64) < SOLD * audit.supplied as f64 => {
            failures.push(format!("it sold only {} of {} units", audit.sold, audit.supplied));
        }
        Verdict::Exact | Verdict::SellsOut => {}
    }
    if audit.sold == 0 {
        failures.push("it sold nothing".to_owned());
    }
    let counts = audit.breaches.iter().filter(|breach| !is_expected(breach, script.verdict));
    failures.extend(counts.map(ToString::to_string));
    failures.extend(seen.audit.lies.iter().map(ToString::to_string));
    if audit.pending != 0 {
        failures.push(format!("{} cents of open intents were not settled", audit.pending));
    }
    if script.trouble == Trouble::BothPauses {
        failures.extend(stale(seen));
    }
    // A stopped, killed or disconnected shop serves fewer requests.
    if script.shops > 1 && matches!(script.trouble, Trouble::None | Trouble::SlowPayments | Trouble::Aborts) {
        let few = seen.servers.iter().filter(|server| server.share < SHARE);
        failures.extend(few.map(|server| {
            format!("{} received only {:.1} % of the requests", server.name, server.share * 100.0)
        }));
    }
    if seen.ended_with_holder {
        failures.push("nothing was sold after the holder was killed".to_owned());
    }
    failures
}

/// Returns `true` for breaches that need no entry of their own: those that occur in every oversold control, and `Oversold`,
/// which is already reported. Money is never among them: each customer pays for what was sold, also twice.
fn is_expected(breach: &Breach, verdict: Verdict) -> bool {
    let by_nature = matches!(breach, Breach::Oversold { .. } | Breach::Stock { .. } | Breach::Tokens { .. });
    verdict == Verdict::Oversells && by_nature || matches!(breach, Breach::Oversold { .. })
}

fn stale(seen: &Evidence<'_>) -> Vec<String> {
    let mut failures = Vec::new();
    if seen.stale.is_empty() {
        failures.push("no write was refused as stale".to_owned());
    }
    for write in seen.stale {
        if write.newer <= write.token {
            failures.push(format!(
                "{}: token {} was refused, but {} is not newer",
                write.key, write.token, write.newer
            ));
        }
        let answers = seen.entries.iter().filter(|entry| entry.key == write.key).count();
        if answers != 1 {
            failures.push(format!("{}: the client recorded {answers} outcomes instead of one", write.key));
        }
    }
    failures
}

/// Returns the holds of a product's lock, by token. After a stopped holder, the next hold begins
/// when the lease expires.
pub(super) fn holds(entries: &[Entry], faults: &[Fault], lease: Duration) -> Vec<Hold> {
    let mut ends: Vec<_> = entries.iter().filter_map(|entry| Some((token(entry)?, entry))).collect();
    ends.sort_by_key(|((token, _), _)| *token);
    let lease = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
    let mut free = 0;
    let mut holds = Vec::with_capacity(ends.len());
    for ((token, is_stale), entry) in ends {
        let to_ms = entry.end_us() / 1000;
        let from_ms = free.max(entry.start_us / 1000).min(to_ms);
        let pause = faults.iter().rfind(|fault| fault.from_ms <= to_ms && fault.from_ms >= from_ms);
        free = match pause {
            Some(pause) if is_stale => pause.from_ms + lease,
            _ if is_stale => from_ms,
            _ => to_ms,
        };
        holds.push(Hold { server: shop(entry), token, from_ms, to_ms, is_stale });
    }
    holds
}

/// Returns the writes refused by the store.
pub(super) fn stale_writes(entries: &[Entry]) -> Vec<StaleWrite> {
    let stale = entries.iter().filter_map(|entry| match &entry.outcome {
        Outcome::Unknown { reason, token: Some(token), newer: Some(newer) } if reason == Outcome::STALE => {
            let server = entry.server.clone().unwrap_or_default();
            Some(StaleWrite { key: entry.key.clone(), server, token: *token, newer: *newer })
        }
        _ => None,
    });
    stale.collect()
}

/// Returns the token of a hold that wrote or tried to write, and `true` if the write was stale.
fn token(entry: &Entry) -> Option<(i64, bool)> {
    match &entry.outcome {
        Outcome::Acknowledged { token } => token.map(|token| (token, false)),
        Outcome::Unknown { reason, token, .. } if reason == Outcome::STALE => {
            token.map(|token| (token, true))
        }
        _ => None,
    }
}

fn shop(entry: &Entry) -> String {
    let server = entry.server.as_deref().unwrap_or("?");
    server.split('/').next().unwrap_or(server).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(server: &str, outcome: Outcome, start_ms: u64, end_ms: u64) -> Entry {
        Entry {
            key: "k".into(),
            sku: "A-1".into(),
            quantity: 1,
            outcome,
            server: Some(format!("{server}/17")),
            start_us: start_ms * 1000,
            latency_us: (end_ms - start_ms) * 1000,
            attempts: 1,
        }
    }

    #[test]
    fn stopped_holder_overlaps_the_next_one() {
        let stale = Outcome::Unknown { reason: Outcome::STALE.into(), token: Some(2), newer: Some(3) };
        let entries = [
            entry("shop-1", Outcome::Acknowledged { token: Some(1) }, 0, 10),
            entry("shop-2", stale, 5, 1_900),
            entry("shop-3", Outcome::Acknowledged { token: Some(3) }, 6, 1_500),
            entry("shop-3", Outcome::Refused { reason: Outcome::SOLD_OUT.into() }, 6, 2_000),
        ];
        let faults = [Fault { from_ms: 12, to_ms: 1_890, what: String::new() }];
        let times: Vec<_> = holds(&entries, &faults, Duration::from_secs(1))
            .into_iter()
            .map(|hold| (hold.server, hold.from_ms, hold.to_ms, hold.is_stale))
            .collect();
        let expected =
            [("shop-1", 0, 10, false), ("shop-2", 10, 1_900, true), ("shop-3", 1_012, 1_500, false)];
        assert_eq!(times, expected.map(|(shop, from, to, stale)| (shop.to_owned(), from, to, stale)));
        assert_eq!(stale_writes(&entries).len(), 1);
    }
}
