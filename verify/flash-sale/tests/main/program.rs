//! Tests of the program's command line: arguments, output and exit codes.

use clap::{CommandFactory, Parser};
use flash_sale::cli::Cli;
use std::process::Command;

pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flash-sale"));
    command.args(arguments);
    command
}

fn refusal(arguments: &[&str]) -> String {
    let all = ["flash-sale"].iter().chain(arguments);
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
fn value_out_of_range_is_refused_with_the_range() {
    let cases = [
        (["serve", "--shops", "0"], "0 is not in 1..=16"),
        (["serve", "--rate", "many"], "invalid digit"),
        (["all", "--runs", "0"], "0 is not in 1..=1000"),
        (["all", "--only", "S11"], "unknown part `S11`"),
        (["chaos", "--seed", "0x2a"], "invalid digit"),
    ];
    for (arguments, cure) in cases {
        let refusal = refusal(&arguments);
        assert!(refusal.contains(cure) && refusal.contains(arguments[1]), "{arguments:?}: {refusal}");
    }
}

#[test]
fn missing_command_prints_the_commands() {
    let ran = command(&[]).output().unwrap();
    assert_eq!(ran.status.code(), Some(2));
    assert!(
        text(&ran.stderr).contains("serve") && text(&ran.stderr).contains("chaos"),
        "{}",
        text(&ran.stderr)
    );
}
