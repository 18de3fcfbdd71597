//! Wall clocks of the server and of a client that step by an hour.

use crate::{
    figure::{Figure, Run},
    support::{command, node},
};
use lock_testkit::{ClockShift, RedisServer};
use lock_trials::{
    line::{Order, now},
    process::Process,
    process::at_once,
};
use std::{path::Path, thread::sleep, time::Duration};

const LEASE: u64 = 3_000;
const HOUR: i64 = 3_600;
const AT_ONCE: usize = 10;

pub(crate) fn clock_steps(run: &Run) -> Vec<Figure> {
    let rounds = run.times(1, 2);
    for _ in 0..rounds {
        at_once(AT_ONCE, |_| server_steps_ahead());
        at_once(AT_ONCE, |_| server_steps_back());
        at_once(AT_ONCE, |_| client_steps());
    }
    let times = rounds * AT_ONCE;
    vec![
        Figure::new(
            "server's clock steps ahead by an hour",
            times,
            "all leases end; the holder learns it within a renewal; no stale write",
            "0 stale writes accepted",
        ),
        Figure::new(
            "server's clock steps back by an hour, and ahead again",
            times,
            "the step back loses no hold; tokens rise",
            "0 lost, 0 smaller tokens",
        ),
        Figure::new(
            "client's wall clock steps ahead and back by an hour",
            times,
            "no hold is lost",
            "0 lost",
        ),
    ]
}

fn held(node: &mut Process) -> bool {
    node.tell(&Order::IsHeld);
    node.expect("is_held").is("held")
}

fn reads(node: &mut Process, file: &Path) -> bool {
    node.tell(&Order::Read { file: file.to_owned() });
    node.expect("read").is("fresh")
}

fn writes(node: &mut Process) -> bool {
    node.tell(&Order::Write);
    node.expect("write").is("accepted")
}

/// Expiries in Redis are times of its wall clock, so all leases end at once. The holder learns it at its next renewal;
/// until then only the fence rejects its writes.
fn server_steps_ahead() {
    let clock = ClockShift::new();
    let server = RedisServer::builder().clock(&clock).start();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("fenced.sqlite");
    let mut first = node(&server.url(), LEASE, &["hold", "x"]);
    let token = first.expect("held").number("token");
    assert!(reads(&mut first, &file));
    clock.set(HOUR);
    let mut second = node(&server.url(), LEASE, &["hold", "x"]);
    assert!(second.expect("held").number("token") > token);
    assert!(reads(&mut second, &file));
    assert!(!writes(&mut first));
    assert!(writes(&mut second));
    sleep(Duration::from_millis(LEASE * 2 / 3));
    assert!(!held(&mut first));
    assert!(held(&mut second));
}

/// Leases last longer by the step. In neither direction does a live holder lose its lock, and tokens keep increasing.
fn server_steps_back() {
    let clock = ClockShift::new();
    let server = RedisServer::builder().clock(&clock).start();
    let mut holder = node(&server.url(), LEASE, &["hold", "x"]);
    let mut last = holder.expect("held").number("token");
    for step in [-HOUR, 0] {
        clock.set(step);
        if step < 0 {
            sleep(Duration::from_millis(LEASE + LEASE / 2));
            assert!(held(&mut holder));
        }
        holder.tell(&Order::Release);
        holder.expect("released");
        holder.tell(&Order::Acquire);
        let token = holder.expect("held").number("token");
        assert!(token > last, "{token} after {last}");
        last = token;
    }
}

/// A client measures leases with a clock that does not step.
fn client_steps() {
    let (server, clock) = (RedisServer::start(), ClockShift::new());
    let mut command = command(&server.url(), LEASE, &["hold", "x"]);
    clock.give_to(&mut command);
    let mut holder = Process::start(&mut command);
    holder.expect("held");
    for step in [HOUR, -HOUR] {
        clock.set(step);
        sleep(Duration::from_millis(LEASE + LEASE / 2));
        assert!(held(&mut holder));
    }
    let mut other = node(&server.url(), LEASE, &["hold", "x"]);
    assert!(other.line_within(Duration::from_millis(300)).is_none(), "held in the store as well");
    holder.tell(&Order::Release);
    let released = holder.expect("released");
    assert!(released.is("was_held"));
    // The wall clock did step.
    let behind = now().saturating_sub(released.number("at")) / 1_000_000;
    assert!(behind.abs_diff(HOUR.unsigned_abs()) < 60, "it is behind by {behind} s");
    other.expect("held");
}
