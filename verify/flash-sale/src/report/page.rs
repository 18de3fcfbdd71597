//! The page, one file that loads no other resources.

use super::{
    ReportError, Results, StallResult, charts, comparison,
    html::{escape, figure},
    scenarios,
};
use std::fmt::Write;

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
        html.push_str(&scenarios::table(&results.scenarios));
        html.push_str(&scenarios::oversold(&results.scenarios)?);
    }
    if let Some(one) = &results.stall {
        html.push_str(&stall(one)?);
    }
    if !results.comparison.is_empty() {
        html.push_str("<h2>The lock beside a conditional statement</h2>");
        html.push_str(&comparison::part(&results.comparison)?);
    }
    if !results.scenarios.is_empty() {
        html.push_str("<h2>Scenarios in detail</h2>");
        for scenario in &results.scenarios {
            html.push_str(&scenarios::details(scenario)?);
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
    let svg = charts::distribution("Latency of the open model with a stall", &[charts::Curve { latency }])?;
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
