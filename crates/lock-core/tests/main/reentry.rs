//! Re-entry: by owner, by guard, in a scope; and never by accident.

use crate::support::{World, millis, name, secs};
use lock_core::{
    FencingToken, Lock, LockError, LockErrorKind, LockFactory, LostReason, MemoryBackend, Owner,
    ReleaseOutcome, clock::TestClock,
};
use lock_testkit::{Fault, Op, Phase};
use std::sync::Arc;

async fn stored_depth(world: &World) -> Option<u32> {
    world.locks.inspect(&name("x")).await.unwrap().stored.map(|stored| stored.depth)
}

/// Recurses `depth` times; each call acquires for the given owner.
fn go_down<'a>(
    world: &'a World,
    lock: &'a Lock,
    me: &'a Owner,
    depth: u32,
) -> std::pin::Pin<Box<dyn Future<Output = Result<(), LockError>> + 'a>> {
    Box::pin(async move {
        let guard = lock.with_owner(me)?.acquire().await?;
        let deepest = 5;
        assert_eq!(stored_depth(world).await, Some(depth));
        if depth < deepest {
            go_down(world, lock, me, depth + 1).await?;
        }
        let expected = match depth {
            1 => ReleaseOutcome::Released,
            deeper => ReleaseOutcome::StillHeld { depth: deeper - 1 },
        };
        assert_eq!(guard.release().await?, expected);
        Ok(())
    })
}

#[tokio::test(start_paused = true)]
async fn five_functions_reenter_with_the_same_owner() {
    let world = World::new();
    let lock = world.locks.named("x").unwrap();
    go_down(&world, &lock, &world.locks.owner(), 1).await.unwrap();
    assert_eq!(stored_depth(&world).await, None);
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn five_guards_of_one_hold_are_five_releases() {
    let world = World::new();
    let mut guards = vec![world.locks.named("x").unwrap().acquire().await.unwrap()];
    for _ in 1..5 {
        guards.push(guards[0].reenter().await.unwrap());
    }
    assert_eq!(stored_depth(&world).await, Some(5));
    assert!(
        guards.iter().all(|guard| guard.fencing_token() == guards[0].fencing_token()),
        "re-entry keeps the token"
    );
    for left in (1..5).rev() {
        let outcome = guards.pop().unwrap().release().await.unwrap();
        assert_eq!(outcome, ReleaseOutcome::StillHeld { depth: left });
        assert!(guards[0].is_held());
    }
    assert_eq!(guards.pop().unwrap().release().await.unwrap(), ReleaseOutcome::Released);
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn inside_a_scope_every_acquire_re_enters() {
    let world = World::new();
    let lock = world.locks.named("x").unwrap();
    let me = world.locks.owner();
    me.scope(async {
        let outer = lock.acquire().await.unwrap();
        let (second, third) = tokio::join!(lock.acquire(), lock.acquire());
        let nested = world.locks.owner().scope(lock.try_acquire()).await.unwrap();
        assert!(nested.is_none(), "an inner scope is another owner");
        assert_eq!(stored_depth(&world).await, Some(3));
        drop((outer, second, third));
    })
    .await;
    // The future may also be created outside and polled inside.
    let guard = lock.with_owner(&me).unwrap().acquire().await.unwrap();
    let again = me.scope(lock.acquire()).await.unwrap();
    assert_eq!(guard.fencing_token(), again.fencing_token());
}

#[tokio::test(start_paused = true)]
async fn scope_of_one_factory_does_not_hide_that_of_another() {
    let world = World::new();
    let other = world.another_process();
    let (mine, theirs) = (world.locks.named("x").unwrap(), other.named("y").unwrap());
    let work = world.locks.owner().scope(async {
        other
            .owner()
            .scope(async {
                let a = mine.acquire().await.unwrap();
                let b = mine.acquire().await.unwrap();
                let c = theirs.acquire().await.unwrap();
                let d = theirs.acquire().await.unwrap();
                (a, b, c, d)
            })
            .await
    });
    let guards = tokio::time::timeout(secs(1), work).await.expect("nobody waits for itself");
    drop(guards);
}

#[tokio::test(start_paused = true)]
async fn branches_of_a_join_with_fresh_owners_exclude_one_another() {
    let world = World::new();
    let lock = world.locks.named("x").unwrap();
    let inside = std::cell::Cell::new(0);
    let branch = async || {
        let guard = lock.acquire().await.unwrap();
        inside.set(inside.get() + 1);
        assert_eq!(inside.get(), 1, "alone");
        tokio::time::sleep(millis(10)).await;
        inside.set(inside.get() - 1);
        guard.release().await.unwrap();
    };
    tokio::join!(branch(), branch(), branch());
    assert!(world.now() >= millis(30), "one after the other");
}

#[tokio::test(start_paused = true)]
async fn release_that_overtakes_a_reentry_does_not_free_the_lock() {
    let world = World::new();
    let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
    let gate = world.faulty.gate(Op::Acquire, Phase::Before);
    let reentry = tokio::spawn(guard.reenter());
    gate.reached().await;
    let release = tokio::spawn(guard.release());
    world.settle().await;
    gate.open();
    let second = reentry.await.unwrap().unwrap();
    assert_eq!(release.await.unwrap().unwrap(), ReleaseOutcome::StillHeld { depth: 1 });
    assert!(second.is_held());
    assert_eq!(stored_depth(&world).await, Some(1));
    assert_eq!(second.release().await.unwrap(), ReleaseOutcome::Released);
}

#[tokio::test(start_paused = true)]
async fn lost_hold_cannot_be_reentered() {
    let world = World::new();
    let me = world.locks.owner();
    let lock = world.locks.named("x").unwrap();
    let mine = lock.with_owner(&me).unwrap();
    let outer = mine.acquire().await.unwrap();
    tokio::time::sleep(millis(1)).await;
    world.store.clear();
    assert_eq!(outer.lost().await, LostReason::Gone);

    assert_eq!(outer.reenter().await.unwrap_err().kind(), LockErrorKind::Lost);
    assert_eq!(
        mine.acquire().await.unwrap_err().kind(),
        LockErrorKind::Lost,
        "the owner believes itself protected"
    );
    let stranger = lock.acquire().await.unwrap();
    assert!(stranger.fencing_token() > outer.fencing_token());
    drop((outer, stranger));
    assert!(mine.acquire().await.is_ok(), "who has put the lost hold down starts over");
}

#[tokio::test(start_paused = true)]
async fn lost_reply_to_a_reentry_neither_loses_nor_leaks_a_depth() {
    let world = World::new();
    let guard = world.locks.named("x").unwrap().acquire().await.unwrap();
    world.faulty.next(Op::Acquire, Fault::ApplyThenLose);
    let inner = guard.reenter().await.unwrap();
    assert_eq!(stored_depth(&world).await, Some(2));
    world.faulty.next(Op::Release, Fault::ApplyThenLose);
    assert_eq!(inner.release().await.unwrap(), ReleaseOutcome::StillHeld { depth: 1 });
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn owner_of_another_factory_is_refused() {
    let world = World::new();
    let foreign = world.another_process().owner();
    let error = world.locks.named("x").unwrap().with_owner(&foreign).unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::ForeignOwner);
    assert!(error.to_string().contains("`owner()` on this lock's factory"));
}

#[tokio::test(start_paused = true)]
async fn reentry_does_not_return_a_token_below_the_requested_floor() {
    let world = World::new();
    let lock = world.locks.named("x").unwrap();
    let outer = lock.acquire().await.unwrap();
    let floor = FencingToken::new(outer.fencing_token().get() + 1_000_000);
    let inner = lock.with_options(lock.options().token_floor(floor)).unwrap();
    let error = inner.with_owner(outer.owner()).unwrap().acquire().await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::InvalidOptions);
    assert!(format!("{error:#}").contains("does not exceed the `token_floor`: lower the floor"), "{error:#}");
    assert!(outer.is_held());

    // The same for a waiter in line when its owner was granted.
    outer.release().await.unwrap();
    let owner = world.locks.owner();
    let both = [lock.clone(), lock.with_options(lock.options().token_floor(floor)).unwrap()];
    let [first, second] = both.map(|lock| tokio::spawn(lock.with_owner(&owner).unwrap().acquire()));
    let first = first.await.unwrap().unwrap();
    assert_eq!(second.await.unwrap().unwrap_err().kind(), LockErrorKind::InvalidOptions);
    assert!(first.is_held());
}

#[tokio::test(start_paused = true)]
async fn reentry_does_not_extend_a_fixed_lease() {
    let clock = Arc::new(TestClock::new());
    let store = MemoryBackend::with_clock(clock.clone());
    let locks = LockFactory::builder(store).clock(clock).build().unwrap();
    let lock = locks.named("x").unwrap().with_fixed_lease(secs(5)).unwrap();
    let guard = lock.acquire().await.unwrap();
    tokio::time::sleep(secs(4)).await;
    let inner = guard.reenter().await.unwrap();
    drop(inner);
    tokio::time::sleep(secs(2)).await;
    assert!(
        !guard.is_held(),
        "`fixed_lease`: a lease of this length that nobody renews; it was 5 s, and 6 s passed"
    );
}
