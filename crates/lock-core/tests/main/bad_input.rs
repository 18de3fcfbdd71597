//! Bad input is refused at the edge, with one sentence that says what to do.

use lock_core::{Connectors, Limits, LockError, LockErrorKind, LockFactory, LockOptions, MemoryBackend};
use std::{error::Error, time::Duration};

/// Returns the message: the error and its causes.
fn sentence(error: &LockError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[test]
fn harmful_names_are_refused() {
    let locks = LockFactory::new(MemoryBackend::new());
    let long = "n".repeat(513);
    let cases = [
        ("", "use at least one character"),
        (long.as_str(), "use at most 512"),
        ("a\0b", "remove or encode it"),
        ("line\nbreak", "remove or encode it"),
        ("a{b", "use a complete hash tag"),
        ("a{}b", "use a complete hash tag"),
        ("a}b", "use a complete hash tag"),
        ("redisson_lock_token:{x}", "put a prefix of your own before it"),
        ("distlock:x", "put a prefix of your own before it"),
    ];
    for (name, cure) in cases {
        let error = locks.named(name).unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::InvalidName);
        assert!(sentence(&error).contains(cure), "{}", sentence(&error));
        assert!(!error.is_retryable());
    }
    assert!(locks.named(String::from("stock:{eu}:42")).is_ok());
}

#[test]
fn contradictory_options_are_refused() {
    let locks = LockFactory::new(MemoryBackend::new());
    let lock = locks.named("x").unwrap();
    let second = Duration::from_secs(1);
    let cases = [
        (lock.with_fixed_lease(Duration::ZERO), "use at least 100ms"),
        (
            lock.with_fixed_lease(second * 100_000),
            "the limit set by `max_lease`, the store or the library: use at most 86400s",
        ),
        (lock.with_options(LockOptions::new().renew_every(Duration::ZERO)), "`renew_every` is too short"),
        (lock.with_options(LockOptions::new().renew_every(second * 28)), "renew more often"),
        (lock.with_options(LockOptions::new().operation_timeout(second * 4)), "use at most 3s"),
        (lock.with_options(LockOptions::new().max_hold(Duration::ZERO)), "`max_hold` is too short"),
    ];
    for (refused, cure) in cases {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::InvalidOptions);
        assert!(sentence(&error).contains(cure), "{}", sentence(&error));
    }
    let builders = [
        LockFactory::builder(MemoryBackend::new()).options(LockOptions::new().lease(Duration::ZERO)),
        LockFactory::builder(MemoryBackend::new()).limits(Limits::new().waiters(0)),
        LockFactory::builder(MemoryBackend::new()).limits(Limits::new().waiters_per_name(0)),
        LockFactory::builder(MemoryBackend::new()).limits(Limits::new().max_lease(second)),
    ];
    for builder in builders {
        assert_eq!(builder.build().unwrap_err().kind(), LockErrorKind::InvalidOptions);
    }
}

#[tokio::test]
async fn wait_beyond_the_limit_is_refused() {
    let locks = LockFactory::new(MemoryBackend::new());
    let error = locks.named("x").unwrap().acquire_timeout(Duration::MAX).await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::InvalidOptions);
    assert!(sentence(&error).contains("raise `max_wait`"), "{}", sentence(&error));
    assert_eq!(
        locks.check_wait(Duration::MAX).unwrap_err().kind(),
        LockErrorKind::InvalidOptions,
        "before it is used"
    );
    assert!(locks.check_wait(Duration::from_secs(24 * 3600)).is_ok());
}

#[tokio::test]
async fn unsupported_urls_are_refused_without_showing_secrets() {
    let connectors = Connectors::default();
    let cases = [
        ("redis://user:s3cret@host", "pass the connector of the crate that serves it"),
        ("ftp://user:s3cret@host", "the scheme `ftp` is not supported (supported: memory)"),
        ("", "it has no scheme"),
        ("s3cret@host", "it has no scheme"),
        ("memory://user:s3cret@host", "write `memory:` or `memory:name`"),
        ("Memory://user:s3cret@host", "write `memory:` or `memory:name`"),
    ];
    for (url, cure) in cases {
        let error = connectors.connect(url).await.unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::InvalidUrl);
        let text = format!("{} {error:?}", sentence(&error));
        assert!(text.contains(cure), "{text}");
        assert!(!text.contains("s3cret"), "{text}");
    }
}

#[tokio::test]
async fn named_memory_store_is_shared_and_an_unnamed_one_is_not() {
    let connectors = Connectors::default();
    let one = LockFactory::new(connectors.connect("memory:bad-input-test").await.unwrap());
    let same = LockFactory::new(connectors.connect("memory:bad-input-test").await.unwrap());
    let shouted = LockFactory::new(connectors.connect("MEMORY:bad-input-test").await.unwrap());
    let fresh = LockFactory::new(connectors.connect("memory:").await.unwrap());
    let _guard = one.named("x").unwrap().acquire().await.unwrap();
    assert!(same.named("x").unwrap().try_acquire().await.unwrap().is_none());
    assert!(shouted.named("x").unwrap().try_acquire().await.unwrap().is_none());
    assert!(fresh.named("x").unwrap().try_acquire().await.unwrap().is_some());
}
