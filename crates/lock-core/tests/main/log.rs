//! The `tracing` output of a factory: its events, and the span of each acquire.

use crate::support::{World, secs};
use lock_core::{
    LockErrorKind, LockFactory, MemoryBackend,
    backend::BackendErrorKind,
    clock::{Clock, Moment, UtcTime},
};
use lock_testkit::{Fault, Op, ThreadLog};
use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
};
use tracing::{Instrument, level_filters::LevelFilter};

#[tokio::test(start_paused = true)]
async fn losses_are_logged_as_errors_and_normal_events_as_debug() {
    let log = ThreadLog::listen(LevelFilter::DEBUG);
    let world = World::new();
    let lock = world.locks.named("x").unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
    let guard = lock.with_fixed_lease(secs(1)).unwrap().acquire().await.unwrap();
    guard.lost().await;
    guard.release().await.unwrap();
    let text = log.text();
    let line =
        |level: &str, message: &str| text.lines().any(|line| line.contains(level) && line.contains(message));
    assert!(line("DEBUG", "acquired lock.name=\"x\" lock.token="), "{text}");
    assert!(line("DEBUG", "released lock.name=\"x\""), "{text}");
    assert!(line("ERROR", "lost lock.name=\"x\"") && text.contains("lock.reason=Expired"), "{text}");
    assert!(line("WARN", "guard released, but its hold had already ended"), "{text}");
}

/// Runs `work` and returns the lines of the acquire spans that ended in it, without the prefix before the span.
async fn spans(work: impl Future<Output = ()>) -> Vec<String> {
    let log = ThreadLog::listen_with_spans(LevelFilter::DEBUG);
    work.instrument(tracing::info_span!("caller")).await;
    let ended = |line: &&str| line.contains("lock.acquire{") && line.contains(": close ");
    let text = log.text();
    text.lines().filter(ended).map(|line| line.trim_start().split_once(' ').unwrap().1.to_owned()).collect()
}

#[track_caller]
fn assert_spans(spans: &[String], expected: &[(&str, &str)]) {
    assert_eq!(spans.len(), expected.len(), "one for each acquire: {spans:#?}");
    for (span, (outcome, waited)) in spans.iter().zip(expected) {
        assert!(span.contains("DEBUG caller:lock.acquire{"), "a child of the caller's span: {span}");
        for field in ["lock.name=\"x\"", "lock.backend=\"memory\""] {
            assert!(span.contains(field), "{field}: {span}");
        }
        let fields = format!("lock.outcome=\"{outcome}\" lock.waited={waited}");
        assert!(
            span.contains(&format!("{fields} ")) || span.contains(&format!("{fields}}}")),
            "{fields}: {span}"
        );
        assert_eq!(span.contains("lock.token="), *outcome == "acquired", "{span}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_acquire_is_a_span_below_the_callers() {
    let world = World::new();
    let lock = world.locks.named("x").unwrap();
    let spans = spans(async {
        let guard = lock.acquire().await.unwrap();
        guard.reenter().await.unwrap().release().await.unwrap();
        assert!(lock.try_acquire().await.unwrap().is_none());
        assert!(lock.acquire_timeout(secs(2)).await.is_err());
        guard.release().await.unwrap();
        world.faulty.next(Op::Acquire, Fault::Refuse(BackendErrorKind::Denied));
        assert!(lock.acquire().await.is_err());
    })
    .await;
    let expected = [
        ("acquired", "0.0"),
        ("acquired", "0.0"),
        ("contended", "0.0"),
        ("timeout", "2.0"),
        ("error", "0.0"),
    ];
    assert_spans(&spans, &expected);
}

#[tokio::test(start_paused = true)]
async fn dropped_acquire_ends_its_span_as_cancelled() {
    let world = World::new();
    let lock = world.locks.named("x").unwrap();
    let guard = lock.acquire().await.unwrap();
    let spans = spans(async {
        assert!(tokio::time::timeout(secs(3), lock.acquire()).await.is_err());
        drop(lock.acquire()); // never polled: no acquire started
    })
    .await;
    drop(guard);
    assert_spans(&spans, &[("cancelled", "3.0")]);
}

#[tokio::test(start_paused = true)]
async fn span_is_entered_only_during_polls() {
    let world = World::new();
    let lock = world.locks.named("x").unwrap();
    let guard = lock.acquire().await.unwrap();
    let log = ThreadLog::listen(LevelFilter::DEBUG);
    let mut waiting = Box::pin(lock.acquire());
    let pending = std::future::poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_pending()));
    assert!(pending.await);
    tracing::info!("between polls");
    guard.release().await.unwrap();
    let guard = waiting.await.unwrap();
    tracing::info!("while held");
    drop(guard);
    let text = log.text();
    for words in ["between polls", "while held"] {
        let line = text.lines().find(|line| line.ends_with(words)).unwrap();
        assert!(!line.contains("lock.acquire"), "{line}");
    }
    let ended = text.lines().find(|line| line.contains("acquire finished")).unwrap();
    assert!(ended.contains("lock.acquire{"), "events of an acquire are inside: {ended}");
}

#[tokio::test(start_paused = true)]
async fn span_is_disabled_below_debug() {
    let log = ThreadLog::listen_with_spans(LevelFilter::INFO);
    let world = World::new();
    world.locks.named("x").unwrap().acquire().await.unwrap().release().await.unwrap();
    assert_eq!(log.text(), "");
}

/// Counts the readings of the clock.
#[derive(Debug, Default)]
struct CountingClock(AtomicU64);

impl Clock for CountingClock {
    fn now(&self) -> Moment {
        self.0.fetch_add(1, Ordering::Relaxed);
        Moment::START
    }

    fn wall(&self) -> UtcTime {
        UtcTime::from_micros(0)
    }
}

#[tokio::test]
async fn disabled_span_reads_no_clock() {
    let reads = async |level| {
        let (_log, clock) = (ThreadLog::listen(level), Arc::new(CountingClock::default()));
        let locks = LockFactory::builder(MemoryBackend::new()).clock(clock.clone()).build().unwrap();
        let _guard = locks.named("x").unwrap().acquire().await.unwrap();
        clock.0.load(Ordering::Relaxed)
    };
    assert_eq!(
        reads(LevelFilter::INFO).await + 2,
        reads(LevelFilter::DEBUG).await,
        "at its begin and its end"
    );
}

#[tokio::test(start_paused = true)]
async fn unconfirmed_release_is_not_reported_as_late() {
    let log = ThreadLog::listen(LevelFilter::DEBUG);
    let world = World::new();
    let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
    world.faulty.always(Op::Release, Fault::Hang);
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Unconfirmed);
    assert!(error.is_ambiguous());
    assert_eq!(log.count("WARN"), 1, "{}", log.text());
    assert_eq!(log.count("store did not confirm the release"), 1, "{}", log.text());
    assert_eq!(log.count("guard released, but its hold had already ended"), 0, "{}", log.text());
}
