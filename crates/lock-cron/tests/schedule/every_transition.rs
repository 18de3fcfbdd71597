//! The runs of random patterns around every transition of every zone match a walk over the minutes.

use crate::{
    support::{TICK, on_the_wall},
    walk::{Spec, Window, policy},
};
use jiff::{Timestamp, tz::TimeZone};
use lock_cron::{DstPolicy, Schedule, ScheduleErrorKind, UtcTime};
use lock_testkit::{Seed, Stream};
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

const PATTERNS: usize = 101_000;

/// Returns each transition from 2015 to 2031 of each zone of the database.
fn transitions() -> Vec<(String, Timestamp)> {
    let (first, last): (Timestamp, Timestamp) =
        ("2015-01-01T00:00:00Z".parse().unwrap(), "2032-01-01T00:00:00Z".parse().unwrap());
    let mut found = Vec::new();
    for name in jiff::tz::db().available() {
        let zone = TimeZone::get(name.as_str()).unwrap();
        let instants = zone.following(first).map(|change| change.timestamp()).take_while(|at| *at < last);
        found.extend(instants.map(|at| (name.to_string(), at)));
    }
    found
}

/// Compares the runs in the window with the walk, and returns their number.
fn check(spec: &Spec, policy: DstPolicy, zone: &str, window: &Window, random: &mut Stream) -> usize {
    let expected: Vec<_> = window.runs(spec, policy).into_iter().map(second).collect();
    let text = spec.to_string();
    let schedule = match Schedule::cron(&text) {
        Ok(schedule) => schedule.in_tz(zone).unwrap().on_dst(policy),
        Err(error) => {
            assert_eq!(error.kind(), ScheduleErrorKind::NeverRuns, "{error:#}");
            assert!(expected.is_empty(), "{error:#}\nbut the walk finds runs: {expected:?}");
            return 0;
        }
    };
    let (before, end) = (second(window.start) - TICK, second(window.end));
    let in_window = schedule.after(before).take_while(|run| *run < end);
    let runs: Vec<_> = in_window.take(expected.len() + 1).collect();
    if runs != expected {
        panic!(
            "{runs:?}\ndiffer from the walk; to reproduce, add to clocks.rs:\n{}",
            line(&text, zone, policy, window, &expected)
        );
    }
    assert!(runs.windows(2).all(|pair| pair[0] < pair[1]), "{schedule:?}: {runs:?}");
    for _ in 0..3 {
        let offset = random.below((window.end - window.start) as u64 * 1000);
        let from = second(window.start) + Duration::from_millis(offset);
        let tail: Vec<_> = runs.iter().copied().filter(|run| *run > from).take(5).collect();
        let resumed: Vec<_> = schedule.after(from).take_while(|run| *run < end).take(5).collect();
        assert_eq!(resumed, tail, "{schedule:?} from {from}");
    }
    runs.len()
}

fn second(second: i64) -> UtcTime {
    UtcTime::from_millis(second.cast_unsigned() * 1000)
}

/// Formats the case as a line to paste into a test.
fn line(text: &str, zone: &str, policy: DstPolicy, window: &Window, expected: &[UtcTime]) -> String {
    let policy = format!("DstPolicy {{ gap: Gap::{:?}, fold: Fold::{:?} }}", policy.gap, policy.fold);
    let (start, end) = (second(window.start).to_string(), second(window.end).to_string());
    let expected: Vec<_> = expected.iter().map(|run| on_the_wall(*run, zone)).collect();
    format!("assert_eq!(runs({text:?}, {zone:?}, {policy}, {start:?}, {end:?}), {expected:?});")
}

#[test]
fn random_patterns_equal_a_walk_over_every_minute() {
    let (began, seed) = (Instant::now(), Seed::of_this_run());
    let transitions = transitions();
    let each = PATTERNS.div_ceil(transitions.len());
    let [next, patterns, runs, idle, plain] = [(); 5].map(|()| AtomicUsize::new(0));
    let work = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some((name, at)) = transitions.get(place) else { return };
            let zone = TimeZone::get(name).unwrap();
            let window = Window::around(*at, &zone);
            plain.fetch_add(usize::from(window.is_plain()), Ordering::Relaxed);
            // A stream per transition, so that threads do not affect each other's work.
            let mut random = Seed::new(seed.get().wrapping_add(place as u64 * 1_000_003)).stream();
            for _ in 0..each {
                let (spec, policy) = (Spec::random(&mut random, &window), policy(&mut random));
                let found = check(&spec, policy, name, &window, &mut random);
                patterns.fetch_add(1, Ordering::Relaxed);
                runs.fetch_add(found, Ordering::Relaxed);
                idle.fetch_add(usize::from(found == 0), Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            worker.join().unwrap();
        }
    });
    let [patterns, runs, idle, plain] = [patterns, runs, idle, plain].map(AtomicUsize::into_inner);
    println!(
        "{patterns} patterns around {} transitions ({plain} of the name only), {runs} runs, {idle} patterns without one, {:.1} s",
        transitions.len(),
        began.elapsed().as_secs_f64(),
    );
    assert!(patterns >= 100_000);
    assert!(idle < patterns / 2, "most patterns have runs");
}
