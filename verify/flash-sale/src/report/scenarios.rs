//! The page section about the scenarios.

use super::{
    ReportError, ScenarioResult, charts,
    charts::{BAD, Bar, GOOD},
    html::{Table, escape, figure},
};
use std::fmt::Write;

pub(super) fn table(scenarios: &[ScenarioResult]) -> String {
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

pub(super) fn oversold(scenarios: &[ScenarioResult]) -> Result<String, ReportError> {
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
pub(super) fn details(scenario: &ScenarioResult) -> Result<String, ReportError> {
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
