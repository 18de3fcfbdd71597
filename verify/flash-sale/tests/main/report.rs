//! Tests that the report is one self-contained file with every figure in the results.

use flash_sale::{
    load::{Latency, Summary},
    report::{
        self, Comparison, Fault, Footer, Hold, Results, ScenarioResult, ServerShare, Spread, StaleWrite,
        StallResult, StockPoint,
    },
};
use std::time::Duration;

fn load() -> Summary {
    let latency = Latency::of((1..500).map(Duration::from_millis));
    Summary { latency, ..Summary::default() }
}

fn results() -> Results {
    let fenced = ScenarioResult {
        id: "S5".into(),
        title: "Holder stopped <between> read and write".into(),
        strategy: "fenced".into(),
        expected: "0 oversold".into(),
        initial: 200,
        sold: 200,
        servers: vec![ServerShare { name: "shop-1".into(), pid: 4711, requests: 100, share: 0.25 }],
        load: load(),
        stale: vec![StaleWrite { key: "s5-9".into(), server: "shop-1/4711".into(), token: 41, newer: 43 }],
        stock: vec![StockPoint { ms: 0, stock: 200, sold: 0 }, StockPoint { ms: 900, stock: 0, sold: 200 }],
        faults: vec![Fault { from_ms: 100, to_ms: 600, what: "shop-1 is stopped".into() }],
        holds: vec![
            Hold { server: "shop-1".into(), token: 41, from_ms: 90, to_ms: 640, is_stale: true },
            Hold { server: "shop-2".into(), token: 43, from_ms: 400, to_ms: 700, is_stale: false },
        ],
        ..ScenarioResult::default()
    };
    let compare = |strategy: &str, rate: f64| Comparison {
        strategy: strategy.into(),
        title: strategy.into(),
        load: "one hot SKU".into(),
        throughput: Spread::of([rate, rate + 9.0, rate - 9.0]),
        p99_ms: Spread::of([20.0]),
        latency: load().latency,
        failures: Vec::new(),
    };
    Results {
        footer: Footer {
            processor: "2 × Abacus".into(),
            redis: "7.0.15".into(),
            seed: 42,
            ..Footer::default()
        },
        scenarios: vec![fenced],
        stall: Some(StallResult { capacity: 210.0, load: load(), stall_ms: 2_000, failures: Vec::new() }),
        comparison: vec![compare("fenced", 170.0), compare("conditional", 900.0)],
    }
}

#[test]
fn page_contains_the_figures_and_loads_nothing() {
    let page = report::page(&results()).unwrap();
    for figure in
        ["4711", "25.0 %", "s5-9", ">41<", ">43<", "2 × Abacus", "7.0.15", "Where not to use a lock", "<svg"]
    {
        assert!(page.contains(figure), "`{figure}` is missing");
    }
    for foreign in ["http://", "https://", "<script", "<link", "@import", "src="] {
        let page = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!page.contains(foreign), "the page contains `{foreign}`");
    }
    assert!(!page.contains("<between>") && page.contains("&lt;between&gt;"));
}

#[test]
fn every_colour_of_a_chart_has_a_dark_variant() {
    let page = report::page(&results()).unwrap();
    let (style, body) = page.split_once("</style>").unwrap();
    for attribute in ["fill", "stroke"] {
        for part in body.split(&format!("{attribute}=\"#")).skip(1) {
            let rule = format!("[{attribute}=\"#{}\"]", &part[..6]);
            assert!(style.contains(&rule), "{rule} is missing in the style");
        }
    }
}

#[test]
fn failed_expectations_are_listed_first() {
    let mut results = results();
    results.scenarios[0].failures.push("it oversold 3 units".into());
    let page = report::page(&results).unwrap();
    assert!(page.contains("0 of 1 scenarios ended as expected"));
    assert!(page.contains("it oversold 3 units"));
}

#[test]
fn written_results_give_the_same_page() {
    let directory = tempfile::tempdir().unwrap();
    report::write(&results(), directory.path()).unwrap();
    let read = report::read(&directory.path().join(report::RESULTS)).unwrap();
    assert_eq!(read, results());
    let page = std::fs::read_to_string(directory.path().join(report::PAGE)).unwrap();
    assert_eq!(page, report::page(&read).unwrap());
}
