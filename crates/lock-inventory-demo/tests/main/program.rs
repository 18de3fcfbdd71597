//! Tests of the program's command line: arguments, output and exit codes.

use clap::{CommandFactory, Parser};
use lock_inventory_demo::cli::Cli;
use std::process::{Command, Output};

pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lock-inventory-demo"));
    command.args(arguments);
    command
}

fn program(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

fn refusal(arguments: &[&str]) -> String {
    let all = ["lock-inventory-demo"].iter().chain(arguments);
    Cli::try_parse_from(all).unwrap_err().to_string()
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn a_value_out_of_range_is_refused_with_the_range() {
    let cases = [
        (["--buyers", "1"], "1 is not in 2..=2000"),
        (["--buyers", "many"], "invalid digit"),
        (["--shops", "0"], "0 is not in 1..=64"),
        (["--orders", "0"], "0 is not in 1..=1000000"),
        (["--orders", "1e6"], "invalid digit"),
        (["--stalls", "101"], "101 is not in 0..=100"),
        (["--seed", "0x2a"], "invalid digit"),
    ];
    for (arguments, cure) in cases {
        let refusal = refusal(&arguments);
        assert!(refusal.contains(cure) && refusal.contains(arguments[0]), "{arguments:?}: {refusal}");
    }
}

#[test]
fn a_small_run_ends_with_a_table_and_a_verdict() {
    let ran = program(&["--orders", "1500", "--buyers", "50", "--stalls", "2"]);
    let (out, err) = (text(&ran.stdout), text(&ran.stderr));
    assert!(ran.status.success(), "{out}{err}");
    for expected in ["without lock", "with lock", "oversold units", "the store refused all 2 writes"] {
        assert!(out.contains(expected), "`{expected}` is missing in {out}");
    }
    assert!(err.contains("with lock: 1,500 of 1,500 orders completed"), "a pipe must get plain lines: {err}");
    assert!(!err.contains('\u{1b}') && !out.contains('\u{1b}'), "a pipe must get no escape codes");
}

#[test]
fn a_sale_without_excess_demand_is_refused() {
    let ran = program(&["--orders", "3"]);
    assert_eq!(ran.status.code(), Some(2));
    assert!(text(&ran.stderr).contains("raise --orders"), "{}", text(&ran.stderr));
}

#[test]
fn a_control_that_does_not_oversell_fails_the_run() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("empty-shelves.csv");
    std::fs::write(&path, "sku,title,category,price_cents,stock\nA-1,Tea,Drinks,500,0\n").unwrap();
    let ran = program(&["--catalogue", path.to_str().unwrap(), "--orders", "20", "--stalls", "0"]);
    assert_eq!(ran.status.code(), Some(1));
    assert!(text(&ran.stdout).contains("This run failed: the sale without the lock did not oversell either"));
}

#[test]
fn a_catalogue_with_a_bad_line_is_refused_with_its_number() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bad.csv");
    std::fs::write(&path, "sku,title,category,price_cents,stock\nA-1,Tea,Drinks,500,-4\n").unwrap();
    let ran = program(&["--catalogue", path.to_str().unwrap()]);
    assert_eq!(ran.status.code(), Some(2));
    assert_eq!(
        text(&ran.stderr),
        "error: catalogue, line 2: negative stock -4: use a whole number, 0 or greater\n"
    );
}
