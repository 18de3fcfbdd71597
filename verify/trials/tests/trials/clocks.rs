//! Wall clocks of the server and of a client that step by an hour.

use crate::{
    figure::{Figure, Run},
    stage::migrated,
    support::{command, node},
};
use lock_testkit::{ClockShift, MariaDbServer, PostgresServer, RedisServer};
use lock_trials::{
    line::{Order, now},
    process::Process,
    process::at_once,
};
use std::{any::Any, path::Path, thread::sleep, time::Duration};

const LEASE: u64 = 3_000;
const HOUR: i64 = 3_600;
const AT_ONCE: usize = 10;
/// The servers whose clocks step at the same time.
const PLACES: [Place; 10] = {
    use Place::{MariaDb, Postgres, Redis};
    [Redis, Redis, Redis, Redis, Redis, Redis, Postgres, Postgres, MariaDb, MariaDb]
};

pub(crate) fn clock_steps(run: &Run) -> Vec<Figure> {
    let rounds = run.times(1, 2);
    for _ in 0..rounds {
        at_once(PLACES.len(), |number| server_steps_ahead(PLACES[number]));
        at_once(PLACES.len(), |number| server_steps_back(PLACES[number]));
        at_once(AT_ONCE, |_| client_steps());
    }
    let mut figures = Vec::new();
    for place in [Place::Redis, Place::Postgres, Place::MariaDb] {
        let times = rounds * PLACES.iter().filter(|&&other| other == place).count();
        figures.push(Figure::new(
            format!("clock of {} steps ahead by an hour", place.name()),
            times,
            "all leases end; the holder learns it within a renewal; no stale write",
            "0 stale writes accepted",
        ));
        figures.push(Figure::new(
            format!("clock of {} steps back by an hour, and ahead again", place.name()),
            times,
            "the step back loses no hold; tokens rise",
            "0 lost, 0 smaller tokens",
        ));
    }
    figures.push(Figure::new(
        "client's wall clock steps ahead and back by an hour",
        rounds * AT_ONCE,
        "no hold is lost",
        "0 lost",
    ));
    figures
}

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Redis,
    Postgres,
    MariaDb,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Self::Redis => "Redis",
            Self::Postgres => "PostgreSQL",
            Self::MariaDb => "MariaDB",
        }
    }

    /// Starts a server with this clock. It runs as long as the first value.
    fn start(self, clock: &ClockShift) -> (Box<dyn Any>, String) {
        match self {
            Self::Redis => {
                let server = RedisServer::builder().clock(clock).start();
                let url = server.url();
                (Box::new(server), url)
            }
            Self::Postgres => {
                let server = PostgresServer::with_clock(&["fsync=on"], clock);
                let url = migrated(server.url());
                (Box::new(server), url)
            }
            Self::MariaDb => {
                let server = MariaDbServer::with_clock(clock);
                let url = migrated(server.database("locks"));
                (Box::new(server), url)
            }
        }
    }
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

/// Expiries are times of the server's wall clock, so all leases end at once. The holder learns it at its next renewal;
/// until then only the fence rejects its writes.
fn server_steps_ahead(place: Place) {
    let clock = ClockShift::new();
    let (_server, url) = place.start(&clock);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("fenced.sqlite");
    let mut first = node(&url, LEASE, &["hold", "x"]);
    let token = first.expect("held").number("token");
    assert!(reads(&mut first, &file));
    clock.set(HOUR);
    let mut second = node(&url, LEASE, &["hold", "x"]);
    assert!(second.expect("held").number("token") > token);
    assert!(reads(&mut second, &file));
    assert!(!writes(&mut first));
    assert!(writes(&mut second));
    sleep(Duration::from_millis(LEASE * 2 / 3));
    assert!(!held(&mut first));
    assert!(held(&mut second));
}

/// Leases last longer by the step. In neither direction does a live holder lose its lock, and tokens keep increasing.
fn server_steps_back(place: Place) {
    let clock = ClockShift::new();
    let (_server, url) = place.start(&clock);
    let mut holder = node(&url, LEASE, &["hold", "x"]);
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
