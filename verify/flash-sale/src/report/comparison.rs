//! The page section that compares the strategies.

use super::{
    Comparison, ReportError,
    charts::{self, Bar, CURVES, Curve},
    html::{Table, escape, figure},
};
use std::collections::BTreeSet;

/// Advice that cannot be derived from the figures.
pub(super) const WHERE_NOT: &str = "\
<h3>Where not to use a lock</h3>
<ul>
<li><b>A single row in a single database.</b> <code>update … set stock = stock - $q where stock >= $q</code> decides and writes in \
one statement. It cannot oversell, it needs no lease and no second system, and no order waits for the payment of another.</li>
<li><b>Several rows in one database.</b> <code>select … for update</code> in a transaction: the database already has the \
lock, and releases it when the connection dies.</li>
<li><b>Only a counter.</b> A Lua script in Redis is atomic. But the order is written to another system afterwards, so a \
crash between the two loses units until both systems are reconciled.</li>
<li><b>Repeated requests.</b> A lock does not detect them. A unique <code>Idempotency-Key</code> does.</li>
</ul>
<p>A lock is useful if the critical section spans several systems: read here, take the payment there, write here again. Its \
token must then be checked on the read <em>and</em> on the write, as in <code>fenced</code>. The lock alone makes \
overselling rare, but not impossible.</p>";

/// The common part of the compared strategies.
const ALIKE: &str = "<p>Both write an intent before they charge, and the order together with its recorded answer: a crash loses \
no payment, and a repeated key runs once. They differ in what decides about the stock: the lock with two fenced statements, or \
one conditional statement.</p>";

pub(super) fn part(all: &[Comparison]) -> Result<String, ReportError> {
    let mut html = ALIKE.to_owned();
    let loads: BTreeSet<_> = all.iter().map(|one| one.load.as_str()).collect();
    for load in loads {
        let these: Vec<_> = all.iter().filter(|one| one.load == load).collect();
        html.push_str(&format!("<h3>{}</h3>", escape(load)));
        html.push_str(&table(&these));
        for failure in these.iter().flat_map(|one| &one.failures) {
            html.push_str(&format!("<p class=\"bad\">{}</p>", escape(failure)));
        }
        let colored = || these.iter().zip(CURVES.iter().cycle());
        let bars: Vec<_> = colored()
            .map(|(one, color)| Bar {
                name: one.title.clone(),
                value: one.throughput.median,
                range: Some(one.throughput),
                color: *color,
            })
            .collect();
        let svg =
            charts::bars(&format!("Orders per second, {load}"), "acknowledged orders per second", &bars)?;
        html.push_str(&figure(
            &svg,
            "Median of the runs; the line extends from the slowest to the fastest run.",
            &[],
        ));
        let curves: Vec<_> = these.iter().map(|one| Curve { latency: &one.latency }).collect();
        let svg = charts::distribution(&format!("Latency, {load}"), &curves)?;
        let legend: Vec<_> = ["c0", "c1", "c2", "c3", "c4"]
            .into_iter()
            .cycle()
            .zip(these.iter().map(|one| one.title.as_str()))
            .collect();
        html.push_str(&figure(&svg, "Latencies in the run with the median throughput.", &legend));
    }
    html.push_str(WHERE_NOT);
    Ok(html)
}

fn table(all: &[&Comparison]) -> String {
    let mut table = Table::new(&[
        ("strategy", ""),
        ("orders per second", "n"),
        ("from – to", "n"),
        ("p99", "n"),
        ("from – to", "n"),
        ("runs", "n"),
    ]);
    for one in all {
        let (rate, p99) = (one.throughput, one.p99_ms);
        table.row(&[
            (&one.title, ""),
            (&format!("{:.0}", rate.median), "n"),
            (&format!("{:.0} – {:.0}", rate.min, rate.max), "n"),
            (&format!("{:.1} ms", p99.median), "n"),
            (&format!("{:.1} – {:.1} ms", p99.min, p99.max), "n"),
            (&rate.runs.to_string(), "n"),
        ]);
    }
    table.end()
}
