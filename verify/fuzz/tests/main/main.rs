//! Runs each target on thousands of seeded inputs, and on inputs that once broke something.

use lock_testkit::{Seed, Stream};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

fn bytes(random: &mut Stream, most: u64) -> Vec<u8> {
    let length = random.below(most);
    (0..length).map(|_| random.number() as u8).collect()
}

/// Returns a text made of pieces that matter to the target, with arbitrary bytes in between.
fn text(random: &mut Stream, pieces: &[&str]) -> Vec<u8> {
    let mut text = Vec::new();
    for _ in 0..random.below(8) {
        match random.below(4) {
            0 => text.extend(bytes(random, 6)),
            _ => text.extend(pieces[random.below(pieces.len() as u64) as usize].as_bytes()),
        }
    }
    text
}

/// Runs a target, and prints an input that breaks it.
fn feed(inputs: usize, target: fn(&[u8]), mut input: impl FnMut(&mut Stream) -> Vec<u8>) {
    let mut random = Seed::of_this_run().stream();
    for _ in 0..inputs {
        let data = input(&mut random);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(&data))) {
            eprintln!("the input was {data:?}");
            resume_unwind(panic);
        }
    }
}

#[test]
fn names_of_any_bytes() {
    let pieces = ["{", "}", "stock", ":", "redisson_", "distlock:", "é", "\n", " ", "*", "{}", "{a}"];
    feed(50_000, lock_fuzz::names, |random| text(random, &pieces));
    lock_fuzz::names(&[b'x'; 600]);
}

#[test]
fn urls_of_any_bytes() {
    let pieces = [
        "redis://",
        "rediss://",
        "redis+unix://",
        "/",
        ":",
        "@",
        "?",
        "#",
        "%",
        "%2F",
        "%ff",
        "host",
        "[::1]",
        "6379",
        "db=",
        "pass=",
        "authority=/none",
        "&",
        "=",
        "0",
    ];
    feed(20_000, lock_fuzz::urls, |random| text(random, &pieces));
}

#[test]
fn options_of_any_durations() {
    feed(50_000, lock_fuzz::options, |random| bytes(random, 80));
}

#[test]
fn replies_of_any_shape() {
    feed(50_000, lock_fuzz::replies, |random| bytes(random, 120));
}

#[test]
fn only_replies_that_scripts_give_are_grants() {
    feed(20_000, lock_fuzz::grants, |random| bytes(random, 120));
}

#[test]
fn events_in_any_order() {
    feed(20_000, lock_fuzz::events, |random| bytes(random, 4_000));
}

/// Short and empty inputs.
#[test]
fn short_inputs_break_nothing() {
    for length in 0..200 {
        let data: Vec<u8> = (0..length).map(|at| (at * 37 % 251) as u8).collect();
        lock_fuzz::events(&data);
        lock_fuzz::replies(&data);
        lock_fuzz::grants(&data);
        lock_fuzz::options(&data);
    }
}
