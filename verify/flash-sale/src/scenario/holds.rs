//! The timeline of lock holders, derived from the responses. A hold ends with its response and
//! begins when the previous hold ends.

use crate::{
    load::{Entry, Outcome},
    report::{Fault, Hold, StaleWrite},
};
use std::time::Duration;

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
