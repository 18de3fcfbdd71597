//! The loss of one lock of a set.

use crate::support::{World, name, secs};
use lock_core::{LockErrorKind, LostReason, RunError, set::MemberLost};
use lock_testkit::{Fault, Op};
use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

fn is_loss(lost: &MemberLost, of: &str, reason: LostReason) -> bool {
    (&lost.name, lost.reason) == (&name(of), reason)
}

#[tokio::test(start_paused = true)]
async fn first_loss_is_reported_with_its_name() {
    let world = World::new();
    let guard = world.locks.all(["a", "b", "c"]).unwrap().acquire().await.unwrap();
    let lost = tokio::spawn(guard.lost());
    world.settle().await;
    assert!(!lost.is_finished() && guard.first_lost().is_none());
    world.locks.force_release("b").await.unwrap();
    assert!(is_loss(&lost.await.unwrap(), "b", LostReason::Gone));
    assert!(!guard.is_held() && guard.remaining().is_zero());
    let outcomes = guard.release().await;
    let held: Vec<_> = outcomes.iter().map(|(_, outcome)| outcome.as_ref().unwrap().was_held()).collect();
    assert_eq!(held, [true, false, true]);
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn release_is_not_a_loss() {
    let world = World::new();
    let guard = world.locks.all(["a", "b"]).unwrap().acquire().await.unwrap();
    let lost = tokio::spawn(guard.lost());
    world.settle().await;
    guard.release().await;
    tokio::time::sleep(secs(60)).await;
    assert!(!lost.is_finished());
    lost.abort();
}

#[tokio::test(start_paused = true)]
async fn lost_lock_ends_the_work_with_its_name() {
    for world in World::both() {
        let dropped = Arc::new(AtomicBool::new(false));
        struct Work(Arc<AtomicBool>);
        impl Drop for Work {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let (set, work) = (world.locks.all(["a", "b"]).unwrap(), Work(dropped.clone()));
        let running = tokio::spawn(async move {
            let never = set.run(|_| async move {
                let _work = work;
                std::future::pending::<()>().await;
            });
            never.await
        });
        world.settle().await;
        world.locks.force_release("b").await.unwrap();
        let error = running.await.unwrap().unwrap_err();
        assert!(dropped.load(Ordering::SeqCst));
        let RunError::MemberLost(lost) = &error else { panic!("{error:?}") };
        assert!(is_loss(lost, "b", LostReason::Gone));
        assert!(error.to_string().contains("the lock `b` was lost"), "{error}");
        tokio::time::sleep(secs(3)).await;
        world.assert_nothing_left();
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_ends_after_a_loss_returns_no_value() {
    let world = World::new();
    let other = world.another_process();
    let run = world.locks.all(["a", "b"]).unwrap();
    let run = run.run(|_| async { other.force_release("a").await.unwrap() }).await;
    let RunError::MemberLost(lost) = run.unwrap_err() else { panic!("the release found nothing") };
    assert!(is_loss(&lost, "a", LostReason::Gone));
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn pause_of_the_process_is_detected_before_the_work_continues() {
    let world = World::new();
    let steps = Arc::new(AtomicBool::new(false));
    let (set, after) = (world.locks.all(["a", "b"]).unwrap(), steps.clone());
    let (wake, woken) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(async move {
        set.run(|_| async move {
            woken.await.unwrap();
            after.store(true, Ordering::SeqCst);
        })
        .await
    });
    world.settle().await;
    world.faulty.always(Op::Renew, Fault::LoseRequest);
    wake.send(()).unwrap();
    // The task is ready, and does not run until the leases are over.
    tokio::time::advance(secs(60)).await;
    let error = running.await.unwrap().unwrap_err();
    assert!(matches!(error, RunError::MemberLost(_)), "{error:?}");
    assert!(!steps.load(Ordering::SeqCst), "the work was not polled");
}

#[tokio::test(start_paused = true)]
async fn lock_lost_while_waiting_for_a_later_one_releases_all() {
    for world in World::both() {
        let other = world.another_process().named("c").unwrap().acquire().await.unwrap();
        let waiting = tokio::spawn(world.locks.all(["a", "b", "c"]).unwrap().acquire());
        world.settle().await;
        assert_eq!(world.store.held().len(), 3);
        world.locks.force_release("a").await.unwrap();
        let error = waiting.await.unwrap().unwrap_err();
        assert_eq!((error.kind(), error.name()), (LockErrorKind::MemberLost, Some(&name("a"))));
        assert_eq!(error.source().unwrap().downcast_ref(), Some(&LostReason::Gone));
        assert!(error.is_retryable());
        assert_eq!(world.store.held(), [name("c")], "given back before the answer");
        other.release().await.unwrap();
        tokio::time::sleep(secs(3)).await;
        world.assert_nothing_left();
    }
}

#[tokio::test(start_paused = true)]
async fn lease_that_ends_during_the_wait_is_an_error() {
    let world = World::new();
    let set = world.locks.all(["a", "b"]).unwrap();
    let fixed = set.with_options(set.options().fixed_lease(secs(5))).unwrap();
    let other = world.another_process().named("b").unwrap().acquire().await.unwrap();
    let error = fixed.acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.name()), (LockErrorKind::MemberLost, Some(&name("a"))));
    other.release().await.unwrap();
    tokio::time::sleep(secs(10)).await;
    world.assert_nothing_left();
}
