//! Waiting for several locks, trying for them, and giving them back.

use crate::support::{World, millis, name, secs};
use lock_core::{LockErrorKind, LockOptions, ReleaseOutcome, backend::BackendErrorKind, set::LockSetGuard};
use lock_testkit::{Fault, Op};
use std::error::Error;

#[tokio::test(start_paused = true)]
async fn set_has_a_token_for_each_name_and_an_outcome_for_each_release() {
    let world = World::new();
    let set = world.locks.all(["b", "a", "c"]).unwrap();
    let first = set.acquire().await.unwrap();
    assert_eq!(world.store.held(), [name("a"), name("b"), name("c")]);
    assert!(first.is_held() && first.remaining() > secs(20));
    assert_eq!(first.names().map(|name| name.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    for held in first.holds() {
        assert_eq!(first.fencing_token(held.name()), Some(held.fencing_token()));
        assert_eq!(Some(held.owner()), first.owner(), "one owner");
    }
    assert_eq!(first.fencing_token("d"), None);

    let view = first.hold();
    let outcomes: Vec<_> =
        first.release().await.into_iter().map(|(name, how)| (name, how.unwrap())).collect();
    assert_eq!(outcomes, ["a", "b", "c"].map(|of| (name(of), ReleaseOutcome::Released)));
    assert!(!view.is_held() && view.remaining().is_zero() && view.first_lost().is_none());

    let second = set.acquire().await.unwrap();
    for held in second.holds() {
        assert!(view.fencing_token(held.name()) < Some(held.fencing_token()), "tokens grow");
    }
    assert_ne!(second.owner(), view.owner(), "each acquire is a fresh owner");
    drop(second);
    world.settle().await;
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn try_takes_all_or_nothing() {
    for busy in ["a", "b", "c"] {
        let world = World::new();
        let set = world.locks.all(["a", "b", "c"]).unwrap();
        let other = world.another_process().named(busy).unwrap().acquire().await.unwrap();
        assert!(set.try_acquire().await.unwrap().is_none());
        assert_eq!(world.store.held(), [name(busy)], "given back before the answer");
        assert_eq!(set.acquire_timeout(secs(0)).await.unwrap_err().name(), Some(&name(busy)));
        other.release().await.unwrap();
        let guard = set.try_acquire().await.unwrap().unwrap();
        assert_eq!(guard.holds().len(), 3);
        assert!(set.try_acquire().await.unwrap().is_none(), "also within the process");
        guard.release().await;
        world.assert_nothing_left();
    }
}

#[tokio::test(start_paused = true)]
async fn one_deadline_covers_all_names() {
    let world = World::new();
    let other = world.another_process();
    let first = other.named("a").unwrap().acquire().await.unwrap();
    let last = other.named("c").unwrap().acquire().await.unwrap();
    let begin = world.now();
    let waiting = tokio::spawn(world.locks.all(["a", "b", "c"]).unwrap().acquire_timeout(secs(5)));
    tokio::time::sleep(secs(3)).await;
    first.release().await.unwrap();
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.name()), (LockErrorKind::Timeout, Some(&name("c"))));
    assert_eq!(world.now() - begin, secs(5));
    assert_eq!(world.store.held(), [name("c")], "given back before the answer");
    last.release().await.unwrap();
    tokio::time::sleep(secs(3)).await;
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn wait_above_the_limit_is_refused() {
    let world = World::new();
    let error = world.locks.all(["a"]).unwrap().acquire_timeout(secs(25 * 60 * 60)).await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::InvalidOptions);
    assert!(error.source().unwrap().to_string().contains("raise `max_wait`"), "{error:?}");
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn earlier_locks_are_renewed_while_a_later_one_is_waited_for() {
    for world in World::both() {
        let set = world.locks.all(["a", "b"]).unwrap();
        let set = set.with_options(LockOptions::new().lease(secs(6))).unwrap();
        let other = world.another_process().named("b").unwrap().acquire().await.unwrap();
        let waiting = tokio::spawn(set.acquire());
        world.settle().await;
        let held = world.locks.inspect("a").await.unwrap().local.unwrap();
        tokio::time::sleep(secs(600)).await;
        other.release().await.unwrap();
        let guard = waiting.await.unwrap().unwrap();
        assert_eq!(guard.fencing_token("a"), Some(held.token), "the same hold, ten minutes later");
        assert!(guard.is_held());
        guard.release().await;
        tokio::time::sleep(secs(3)).await;
        world.assert_nothing_left();
    }
}

#[tokio::test(start_paused = true)]
async fn store_failure_releases_what_the_set_holds() {
    for world in World::both() {
        let set = world.locks.all(["a", "b", "c"]).unwrap();
        world.faulty.script(
            Op::Acquire,
            [Fault::None, Fault::None, Fault::FailBefore(BackendErrorKind::Unavailable)],
        );
        let error = set.try_acquire().await.unwrap_err();
        assert_eq!((error.kind(), error.name()), (LockErrorKind::Unavailable, Some(&name("c"))));
        assert_eq!(world.store.held(), [], "given back before the answer");
        tokio::time::sleep(secs(3)).await;
        world.assert_nothing_left();
    }
}

#[tokio::test(start_paused = true)]
async fn owner_reenters_the_locks_of_its_set() {
    let world = World::new();
    let me = world.locks.owner();
    let set = world.locks.all(["a", "b"]).unwrap();
    let outer = set.with_owner(&me).unwrap().acquire().await.unwrap();
    let inner = world.locks.named("b").unwrap().with_owner(&me).unwrap().acquire().await.unwrap();
    assert_eq!(Some(inner.fencing_token()), outer.fencing_token("b"));
    let outcomes = outer.release().await;
    assert!(matches!(outcomes[1].1, Ok(ReleaseOutcome::StillHeld { .. })), "{outcomes:?}");
    assert_eq!(world.store.held(), [name("b")]);
    inner.release().await.unwrap();

    let scoped = world.locks.owner().scope(async {
        let outer = world.locks.named("a").unwrap().acquire().await.unwrap();
        let inner: LockSetGuard = set.acquire().await.unwrap();
        assert_eq!(inner.owner(), Some(outer.owner()));
        inner.release().await;
        outer.release().await.unwrap()
    });
    assert_eq!(scoped.await, ReleaseOutcome::Released);
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn releases_are_sent_together() {
    let world = World::new();
    let guard = world.locks.all((0..64).map(|number| format!("n{number}"))).unwrap().acquire().await.unwrap();
    world.faulty.always(Op::Release, Fault::Delay(millis(10)));
    let begin = world.now();
    assert!(guard.release().await.iter().all(|(_, outcome)| outcome.as_ref().unwrap().was_held()));
    assert_eq!(world.now() - begin, millis(10));
    assert_eq!(world.faulty.most_in_flight(Op::Release), 64);
    world.assert_nothing_left();
}

#[test]
fn futures_are_send() {
    fn send<T: Send + 'static>(_: &T) {}
    fn send_sync<T: Send + Sync + 'static>() {}
    send_sync::<LockSetGuard>();
    send_sync::<lock_core::set::SetHold>();
    send_sync::<lock_core::set::LockSet>();
    let world = World::new();
    let set = world.locks.all(["a"]).unwrap();
    send(&set.acquire());
    send(&set.try_acquire());
    send(&set.acquire_timeout(secs(1)));
}
