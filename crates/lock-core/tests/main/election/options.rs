//! The relations between the options of an election.

use crate::support::{World, millis, secs};
use lock_core::{
    Limits, LockErrorKind, LockFactory, LockOptions, MemoryBackend, OptionsError, election::ElectionOptions,
};
use std::error::Error;

#[test]
fn relations_are_checked() {
    let options = ElectionOptions::new;
    assert_eq!(options().check(), Ok(()));
    assert_eq!(options().back_off(secs(5), secs(5)).check(), Ok(()));
    let lock = LockOptions::new().lease(secs(9)).renew_every(secs(8));
    let refused = [
        (options().lease(millis(99)), "use at least 100ms"),
        (options().lock_options(lock), "which is the renewal interval plus two operation timeouts"),
        (options().lock_options(LockOptions::new().fixed_lease(secs(9))), "use `lease`, which is renewed"),
        (options().back_off(millis(9), secs(5)), "`initial_delay` is too short: use at least 10ms"),
        (options().back_off(secs(6), secs(5)), "an initial delay of 6s exceeds the maximum delay of 5s"),
    ];
    for (options, text) in refused {
        let error = options.check().unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
        let election = LockFactory::new(MemoryBackend::new()).election("x").unwrap();
        let refused = election.with_options(options).unwrap_err();
        assert_eq!(refused.kind(), LockErrorKind::InvalidOptions);
        let source = refused.source().and_then(|source| source.downcast_ref::<OptionsError>());
        assert_eq!(source, Some(&error));
    }
}

#[test]
fn names_and_limits_are_checked() {
    let locks = LockFactory::new(MemoryBackend::new());
    assert_eq!(locks.election("").unwrap_err().kind(), LockErrorKind::InvalidName);
    let limits = Limits::new().max_lease(secs(10));
    let options = LockOptions::new().lease(secs(5));
    let locks = LockFactory::builder(MemoryBackend::new()).limits(limits).options(options).build().unwrap();
    let election = locks.election("x").unwrap();
    assert_eq!(election.options(), ElectionOptions::new().lease(secs(10)), "the longest lease that fits");
    let error = election.with_options(ElectionOptions::new()).unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::InvalidOptions);
    assert!(error.source().is_some_and(|source| source.to_string().contains("use at most 10s")), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn factory_options_do_not_apply() {
    let world = World::with(LockOptions::new().fixed_lease(secs(1)).max_hold(secs(2)));
    let election = world.locks.election("x").unwrap();
    assert_eq!((election.name().as_str(), election.options()), ("x", ElectionOptions::new()));
    let held = election.lead(|term| async move {
        tokio::time::sleep(secs(60)).await;
        assert!(term.hold().remaining() > secs(9), "a lease of 15 s, renewed every 5 s");
        Ok::<_, std::convert::Infallible>(())
    });
    held.until(tokio::time::sleep(secs(70))).await.unwrap();
    assert!(world.now() < secs(61), "the term was not interrupted");
}
