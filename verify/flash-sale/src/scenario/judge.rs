//! The expectations, and the rules that check them.

use super::script::{Script, Trouble, Verdict};
use crate::{
    audit::SaleAudit,
    load::Entry,
    report::{ServerShare, StaleWrite},
};
use lock_inventory_demo::audit::Breach;

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
