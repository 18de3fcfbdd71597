//! Wall clocks that step by an hour, of the server and of a client.

use crate::support::{at_once, command, node};
use lock_node::process::Process;
use lock_testkit::{ClockShift, RedisServer};
use std::{thread::sleep, time::Duration};

const LEASE: u64 = 1_000;
const HOUR: i64 = 3_600;
const AT_ONCE: usize = 10;
const ROUNDS: usize = 2;

fn twenty_times(case: impl Fn() + Clone + Send + 'static) {
    for _ in 0..ROUNDS {
        let case = case.clone();
        at_once(AT_ONCE, move |_| case());
    }
}

fn says(node: &mut Process, order: &str, answer: &str) {
    node.tell(order);
    assert_eq!(node.line().text(), answer);
}

/// An expiry in Redis is a moment of its wall clock: all leases are over at once. The holder hears of it at its next
/// renewal; until then only the fence keeps it out.
#[test]
fn a_server_clock_that_steps_ahead_ends_leases_and_the_holder_is_told() {
    twenty_times(|| {
        let clock = ClockShift::new();
        let server = RedisServer::builder().clock(&clock).start();
        let directory = tempfile::tempdir().unwrap();
        let read = format!("read {}", directory.path().join("fenced.sqlite").display());
        let mut first = node(&server.url(), LEASE, &["hold", "x"]);
        let token = first.expect("held").number("token");
        says(&mut first, &read, "read fresh");
        clock.set(HOUR);
        let mut second = node(&server.url(), LEASE, &["hold", "x"]);
        assert!(second.expect("held").number("token") > token);
        says(&mut second, &read, "read fresh");
        says(&mut first, "write", "write stale");
        says(&mut second, "write", "write done");
        sleep(Duration::from_millis(LEASE / 2));
        says(&mut first, "is_held", "is_held false");
        says(&mut second, "is_held", "is_held true");
    });
    eprintln!("server clock + 1 h, {} times: told within a renewal, no stale write", AT_ONCE * ROUNDS);
}

/// Leases last longer by the step: nobody who lives loses anything, and tokens go on rising, there and back.
#[test]
fn a_server_clock_that_steps_back_loses_no_hold_and_repeats_no_token() {
    twenty_times(|| {
        let clock = ClockShift::new();
        let server = RedisServer::builder().clock(&clock).start();
        let mut holder = node(&server.url(), LEASE, &["hold", "x"]);
        let mut last = holder.expect("held").number("token");
        for step in [-HOUR, 0] {
            clock.set(step);
            if step < 0 {
                sleep(Duration::from_millis(LEASE + LEASE / 2));
                says(&mut holder, "is_held", "is_held true");
            }
            holder.tell("release");
            holder.expect("released");
            holder.tell("acquire");
            let token = holder.expect("held").number("token");
            assert!(token > last, "{token} after {last}");
            last = token;
        }
    });
    eprintln!(
        "server clock - 1 h and back, {} times: no hold lost by the step back, tokens rise",
        AT_ONCE * ROUNDS
    );
}

/// A client measures leases with a clock that does not step.
#[test]
fn a_clients_wall_clock_loses_no_hold() {
    twenty_times(|| {
        let (server, clock) = (RedisServer::start(), ClockShift::new());
        let mut command = command(&server.url(), LEASE, &["hold", "x"]);
        clock.give_to(&mut command);
        let mut holder = Process::start(&mut command);
        holder.expect("held");
        for step in [HOUR, -HOUR] {
            clock.set(step);
            sleep(Duration::from_millis(LEASE + LEASE / 2));
            says(&mut holder, "is_held", "is_held true");
        }
        let mut other = node(&server.url(), LEASE, &["hold", "x"]);
        assert!(other.line_within(Duration::from_millis(300)).is_none(), "it is held in the store as well");
        holder.tell("release");
        assert!(holder.expect("released").text().contains("was_held=true"));
        other.expect("held");
    });
    eprintln!("client wall clock + 1 h and - 1 h, {} times: no hold lost", AT_ONCE * ROUNDS);
}
