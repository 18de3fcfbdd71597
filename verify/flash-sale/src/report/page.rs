//! The page, one file that loads no other resources: the scenarios, the stall, and the comparison of the strategies.

use super::{
    Comparison, ReportError, Results, ScenarioResult, StallResult,
    charts::{self, BAD, Bar, CURVES, Curve, GOOD},
};
use std::{collections::BTreeSet, fmt::Write};

const STYLE: &str = include_str!("style.css");

/// Returns the page as HTML.
///
/// # Errors
/// Returns [`ReportError`] if a chart cannot be drawn.
pub fn page(results: &Results) -> Result<String, ReportError> {
    let mut html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>Stock deduction with and without a lock</title><style>{STYLE}</style></head><body><main>"
    );
    html.push_str("<h1>Stock deduction with and without a lock</h1>");
    html.push_str(&verdict(results));
    if !results.scenarios.is_empty() {
        html.push_str("<h2>Scenarios</h2>");
        html.push_str(&scenarios_table(&results.scenarios));
        html.push_str(&oversold(&results.scenarios)?);
    }
    if let Some(one) = &results.stall {
        html.push_str(&stall(one)?);
    }
    if !results.comparison.is_empty() {
        html.push_str("<h2>The lock beside a conditional statement</h2>");
        html.push_str(&comparison(&results.comparison)?);
    }
    if !results.scenarios.is_empty() {
        html.push_str("<h2>Scenarios in detail</h2>");
        for scenario in &results.scenarios {
            html.push_str(&details(scenario)?);
        }
    }
    html.push_str("</main>");
    html.push_str(&footer(results));
    html.push_str("</body></html>\n");
    Ok(html)
}

fn verdict(results: &Results) -> String {
    let passed = results.scenarios.iter().filter(|scenario| scenario.has_passed()).count();
    let total = results.scenarios.len();
    if total == 0 {
        return String::new();
    }
    let (class, sentence) = match passed == total {
        true => ("pass", format!("All {total} scenarios ended as expected.")),
        false => ("bad", format!("{passed} of {total} scenarios ended as expected.")),
    };
    format!(
        "<p class=\"verdict {class}\">{sentence}</p><p>The scenarios that are expected to oversell are \
          controls: if one of them does not oversell, it proves nothing. The others must not oversell.</p>"
    )
}

fn stall(stall: &StallResult) -> Result<String, ReportError> {
    let mut html = String::from("<h2>A stall under a fixed rate of arrivals</h2>");
    let rate = stall.load.rate.map_or(String::new(), |rate| {
        let valid =
            if rate.is_valid() { "valid" } else { "INVALID: the achieved rate is off by more than 2 %" };
        format!("Requested {:.1}/s, achieved {:.1}/s ({valid}); ", rate.requested, rate.achieved)
    });
    let latency = &stall.load.latency;
    let _ = write!(
        html,
        "<p>Orders arrive at half of the capacity of {:.0} per second. The database stalls once for {} ms during a \
         shop's call. {}p50 {:.0} ms, p99 {:.0} ms, longest {:.0} ms. Latencies count from the intended start and include \
         refused orders.</p>",
        stall.capacity,
        stall.stall_ms,
        escape(&rate),
        latency.p50_ms,
        latency.p99_ms,
        latency.max_ms,
    );
    for failure in &stall.failures {
        let _ = write!(html, "<p class=\"bad\">{}</p>", escape(failure));
    }
    let svg = charts::distribution("Latency of the open model with a stall", &[Curve { latency }])?;
    html.push_str(&figure(&svg, "All orders, from their intended start.", &[]));
    Ok(html)
}

fn footer(results: &Results) -> String {
    let footer = &results.footer;
    let built =
        if footer.optimised { "optimised build" } else { "debug build: the figures are not comparable" };
    let facts = [
        ("Program", format!("{} ({built})", footer.program)),
        ("Processor", footer.processor.clone()),
        ("Kernel", footer.kernel.clone()),
        ("Redis", footer.redis.clone()),
        ("Database", footer.database.clone()),
        ("Seed", footer.seed.to_string()),
        ("Run", format!("{}, {} s", footer.began, footer.seconds)),
    ];
    let mut html = String::from("<footer><dl>");
    for (name, value) in facts {
        let _ = write!(html, "<dt>{name}</dt><dd>{}</dd>", escape(&value));
    }
    html.push_str("</dl></footer>");
    html
}

fn scenarios_table(scenarios: &[ScenarioResult]) -> String {
    let mut table = Table::new(&[
        ("", ""),
        ("scenario", ""),
        ("strategy", ""),
        ("expected", ""),
        ("stock", "n"),
        ("sold", "n"),
        ("sold twice", "n"),
        ("stale writes refused", "n"),
        ("p99", "n"),
        ("verdict", ""),
    ]);
    for scenario in scenarios {
        let (verdict, class) =
            if scenario.has_passed() { ("as expected", "pass") } else { ("FAILED", "bad") };
        let oversold = if scenario.oversold > 0 { "n bad" } else { "n" };
        table.row(&[
            (&scenario.id, ""),
            (&scenario.title, ""),
            (&scenario.strategy, ""),
            (&scenario.expected, ""),
            (&scenario.initial.to_string(), "n"),
            (&scenario.sold.to_string(), "n"),
            (&scenario.oversold.to_string(), oversold),
            (&scenario.stale.len().to_string(), "n"),
            (&format!("{:.0} ms", scenario.load.latency.p99_ms), "n"),
            (verdict, class),
        ]);
    }
    table.end()
}

fn oversold(scenarios: &[ScenarioResult]) -> Result<String, ReportError> {
    let bar = |scenario: &ScenarioResult| Bar {
        name: format!("{} {}", scenario.id, scenario.strategy),
        value: scenario.oversold as f64,
        range: None,
        color: if scenario.oversold > 0 { BAD } else { GOOD },
    };
    let bars: Vec<_> = scenarios.iter().map(bar).collect();
    let svg = charts::bars("Units sold beyond the stock, per scenario", "units beyond the stock", &bars)?;
    Ok(figure(
        &svg,
        "Units sold beyond the stock, counted from the order rows after all processes had exited.",
        &[],
    ))
}

/// Returns the details of a scenario: failures, figures, charts and tables.
fn details(scenario: &ScenarioResult) -> Result<String, ReportError> {
    let mut html = format!("<h3>{} {}</h3>", escape(&scenario.id), escape(&scenario.title));
    for failure in &scenario.failures {
        let _ = write!(html, "<p class=\"bad\">{}</p>", escape(failure));
    }
    for figure in &scenario.figures {
        let _ = write!(html, "<p>{}: {}</p>", escape(&figure.name), escape(&figure.value));
    }
    for breach in scenario.breaches.iter().take(10) {
        let _ = write!(html, "<p class=\"soft\">{}</p>", escape(breach));
    }
    html.push_str(&servers(scenario));
    if !scenario.stale.is_empty() {
        html.push_str(&stale(scenario));
    }
    if scenario.stock.len() > 1 {
        let svg = charts::stock(&format!("{}: stock and sales over time", scenario.id), scenario)?;
        let legend = [
            ("good-mark", "stock, according to the database's counter"),
            ("bad-mark", "units sold, according to the order rows"),
            ("ink-mark", "initial stock"),
            ("band-mark", "fault"),
        ];
        let shown = if scenario.faults.is_empty() { &legend[..3] } else { &legend[..] };
        html.push_str(&figure(&svg, &faults(scenario), shown));
    }
    if scenario.holds.iter().any(|hold| hold.is_stale)
        || (!scenario.holds.is_empty() && !scenario.faults.is_empty())
    {
        let svg = charts::holders(&format!("{}: lock holders over time", scenario.id), scenario)?;
        let legend = [
            ("good-mark", "hold, with its token"),
            ("bad-mark", "hold whose write was stale"),
            ("band-mark", "fault"),
        ];
        let caption = "Derived from the shops' responses: a hold ends with its response and begins when the \
            previous hold ends.";
        html.push_str(&figure(&svg, caption, &legend));
    }
    Ok(html)
}

fn servers(scenario: &ScenarioResult) -> String {
    let mut table = Table::new(&[("shop", ""), ("process", "n"), ("requests", "n"), ("share", "n")]);
    for server in &scenario.servers {
        table.row(&[
            (&server.name, ""),
            (&server.pid.to_string(), "n"),
            (&server.requests.to_string(), "n"),
            (&format!("{:.1} %", server.share * 100.0), "n"),
        ]);
    }
    table.end()
}

fn stale(scenario: &ScenarioResult) -> String {
    let mut table = Table::new(&[
        ("refused write", ""),
        ("shop / process", ""),
        ("its token", "n"),
        ("newer token", "n"),
        ("outcome for the client", ""),
    ]);
    for write in &scenario.stale {
        table.row(&[
            (&write.key, ""),
            (&write.server, ""),
            (&write.token.to_string(), "n"),
            (&write.newer.to_string(), "n"),
            ("not acknowledged; settled by the next request with the key, or by a job", ""),
        ]);
    }
    table.end()
}

fn faults(scenario: &ScenarioResult) -> String {
    let faults: Vec<_> = scenario
        .faults
        .iter()
        .map(|fault| {
            let (from, to) = (fault.from_ms as f64 / 1e3, fault.to_ms as f64 / 1e3);
            format!("{from:.2} to {to:.2} s: {}", fault.what)
        })
        .collect();
    faults.join("; ")
}

/// Advice that cannot be derived from the figures.
const WHERE_NOT: &str = "\
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

/// Returns the section that compares the strategies.
fn comparison(all: &[Comparison]) -> Result<String, ReportError> {
    let mut html = ALIKE.to_owned();
    let loads: BTreeSet<_> = all.iter().map(|one| one.load.as_str()).collect();
    for load in loads {
        let these: Vec<_> = all.iter().filter(|one| one.load == load).collect();
        html.push_str(&format!("<h3>{}</h3>", escape(load)));
        html.push_str(&comparison_table(&these));
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

fn comparison_table(all: &[&Comparison]) -> String {
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

/// Escapes `text` for use in elements and attributes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// An HTML table.
struct Table {
    html: String,
}

impl Table {
    /// Begins a table. Each head consists of a text and a class, `n` for numbers.
    fn new(heads: &[(&str, &str)]) -> Self {
        let mut html = String::from("<div class=\"scroll\"><table><thead><tr>");
        for (head, class) in heads {
            let _ = write!(html, "<th scope=\"col\" class=\"{class}\">{}</th>", escape(head));
        }
        html.push_str("</tr></thead><tbody>");
        Self { html }
    }

    /// Adds a row. Each cell consists of a text and a class.
    fn row(&mut self, cells: &[(&str, &str)]) {
        self.html.push_str("<tr>");
        for (text, class) in cells {
            let _ = write!(self.html, "<td class=\"{class}\">{}</td>", escape(text));
        }
        self.html.push_str("</tr>");
    }

    fn end(mut self) -> String {
        self.html.push_str("</tbody></table></div>");
        self.html
    }
}

/// Returns a chart with its caption and its legend. An empty legend is omitted.
fn figure(svg: &str, caption: &str, legend: &[(&str, &str)]) -> String {
    let mut html = format!("<figure>{svg}");
    if !legend.is_empty() {
        html.push_str("<ul class=\"legend\">");
        for (class, name) in legend {
            let _ = write!(html, "<li><i class=\"{class}\"></i>{}</li>", escape(name));
        }
        html.push_str("</ul>");
    }
    let _ = write!(html, "<figcaption>{}</figcaption></figure>", escape(caption));
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_text_is_escaped() {
        assert_eq!(escape(r#"<a href="x">&"#), "&lt;a href=&quot;x&quot;&gt;&amp;");
    }
}
