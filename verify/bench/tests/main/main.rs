//! Every workload yields figures for each contestant, and no run violates exclusion or the order of tokens. The tests
//! do not check times.

mod reentry_memory;

use serde_json::Value;
use std::process::{Command, Stdio};

#[test]
fn every_workload_yields_figures() {
    let output = Command::new(env!("CARGO_BIN_EXE_lock-bench"))
        .args(["all", "--smoke", "--json"])
        .stderr(Stdio::inherit())
        .output()
        .expect("starts");
    assert!(output.status.success(), "the benchmark failed: {}", output.status);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON report");
    for version in ["redis", "rustc", "fred", "redis_rs", "rslock"] {
        let known = report["machine"][version].as_str().is_some_and(|text| text.contains('.'));
        assert!(
            known || version == "rslock" && cfg!(not(feature = "rslock")),
            "{version}: {:#}",
            report["machine"]
        );
    }
    let workloads = list(&report["workloads"]);
    assert_eq!(workloads.len(), 14);
    for workload in workloads {
        let cases = list(&workload["cases"]);
        let rows: Vec<&Value> = cases.iter().flat_map(|case| list(&case["rows"])).collect();
        assert!(cases.iter().all(|case| !list(&case["rows"]).is_empty()), "{workload:#}");
        let figures = |row: &Value| row["figures"].as_object().expect("figures have names").clone();
        assert!(rows.iter().all(|row| !figures(row).is_empty()), "{workload:#}");
        // On a busy machine, a contestant may not finish a cycle within the 40 ms of this run.
        let is_measured = |figure: &Value| figure["median"].as_f64().is_some_and(|median| median > 0.0);
        assert!(rows.iter().any(|row| figures(row).values().any(is_measured)), "{workload:#}");
    }
}

#[test]
fn markdown_has_a_table_for_each_case() {
    let output = Command::new(env!("CARGO_BIN_EXE_lock-bench"))
        .args(["tower", "--smoke", "--markdown"])
        .output()
        .expect("starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8 report");
    assert!(text.contains("\n### A request under a free in-memory lock\n"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("| bare handler")), "{text}");
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}
