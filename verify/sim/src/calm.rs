//! The calm after the storm: every client is granted every lock again, and nothing may be left.

use crate::{plan::LATEST, process::Life, trace::Who, world::World};
use lock_core::{LockErrorKind, LockFactory};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::{
    runtime::Handle,
    task::JoinSet,
    time::{sleep, timeout},
};

/// Makes every living client take each lock once, which must succeed soon.
pub(crate) async fn probe(world: &Arc<World>, ended: &[Life]) {
    // Attempts that were lost in the storm time out first.
    sleep(world.with(|state| state.plan.longest_operation()) + Duration::from_millis(50)).await;
    let mut turns = JoinSet::new();
    for life in ended.iter().filter(|life| is_alive(world, life)) {
        turns.spawn(probe_one(world.clone(), life.link, life.factory.clone()));
    }
    while let Some(done) = turns.join_next().await {
        done.expect("not poisoned");
    }
}

async fn probe_one(world: Arc<World>, link: usize, factory: LockFactory) {
    let (names, quorum, slow) = world.with(|s| (s.plan.names.clone(), s.plan.quorum, s.plan.may_be_slow()));
    // Restarted nodes do not vote yet.
    let quarantine = quorum.map_or(Duration::ZERO, |quorum| quorum.max_lease);
    let longest = world.with(|state| state.plan.max_lease());
    let bound = longest * 3 + Duration::from_secs(10) + quarantine + stretch(&world);
    for name in names {
        let began = world.with(|state| state.now);
        let lock = factory.named(&name).expect("valid name");
        let acquire = async {
            loop {
                match lock.acquire().await {
                    Err(error)
                        if (slow || quorum.is_some()) && error.kind() == LockErrorKind::Unavailable => {}
                    other => break other,
                }
            }
        };
        let guard = timeout(bound, acquire).await;
        let took = world.with(|state| {
            let took = state.now - began;
            state.oracle.worst_wait = state.oracle.worst_wait.max(took);
            took
        });
        let Ok(Ok(guard)) = guard else {
            let what = format!("link {link} did not get {name} in {took} µs: {guard:?}");
            return world.with(|s| s.oracle.must(false, || what));
        };
        let answer = guard.release().await;
        let held = answer.as_ref().is_ok_and(|outcome| outcome.was_held());
        world.with(|s| s.oracle.must(held || slow, || format!("in the calm, a release returned {answer:?}")));
    }
}

fn is_alive(world: &World, life: &Life) -> bool {
    world.with(|state| !state.links[life.link].dead && !state.links[life.link].closed)
}

/// Returns the additional time for which a store whose clock stepped back keeps unknown leases: up to a lease.
pub(crate) fn stretch(world: &World) -> Duration {
    world.with(|state| match state.oracle.stepped_back {
        true => state.stores.farthest_step() + state.plan.max_lease(),
        false => Duration::ZERO,
    })
}

pub(crate) async fn nothing_is_left(world: &Arc<World>, ended: Vec<Life>) {
    let (operation, lease) = world.with(|s| (s.plan.longest_operation(), s.plan.max_lease()));
    // Late messages arrive, then two operation timeouts pass.
    sleep(Duration::from_millis(LATEST) + operation * 2).await;
    world.with(|state| {
        for (_, stored) in state.stores.left(state.now, &state.plan.names) {
            // Documented limitations: a clock that stepped back revives requests that were void, and a process that has
            // not heard from the store uses its own clock.
            let far = state.oracle.leases.get(&stored.lease).is_none_or(|lease| lease.far_stamp);
            // The leases of dead processes expire.
            let link = usize::try_from(stored.lease.process().as_uuid().as_u64_pair().1).unwrap_or(0);
            let dead = state.links.get(link).is_none_or(|link| link.dead || link.copied);
            // So do those that a shutdown left because their minimum was not over.
            let closed = state.links.get(link).is_some_and(|link| link.closed);
            let kept = closed && !state.plan.longest_minimum().is_zero();
            let excused = far || dead || kept || state.oracle.stepped_back;
            state.oracle.must(excused, || format!("an orphan: {stored:?}"));
        }
    });
    // A process with a wrong estimate of the store's clock undoes for a whole lease, and a subscription outlives its
    // waiter by 2 s.
    sleep(lease + operation + Duration::from_secs(3) + stretch(world)).await;
    let watchers =
        world.with(|s| s.stores.iter().flat_map(|store| store.watchers.clone()).collect::<Vec<_>>());
    for life in &ended {
        let (held, waiting) =
            (life.ear.holding.load(Ordering::Relaxed), life.ear.waiting.load(Ordering::Relaxed));
        let names = if is_alive(world, life) { life.factory.active_locks() } else { 0 };
        let link = life.link;
        world.with(|s| {
            s.oracle.must((held, waiting, names) == (0, 0, 0), || {
                format!("link {link} still has {held} holds, {waiting} waits, {names} names")
            });
            let watches = watchers.iter().any(|(_, watcher)| *watcher == link);
            s.oracle.must(!watches, || format!("link {link} is still subscribed"));
        });
    }
    world.with(|state| {
        let left = state.stores.left(state.now, &state.plan.names);
        state.oracle.must(left.is_empty(), || format!("orphans: {left:?}"));
        let open = state.calls.values().filter(|call| !call.is_closed()).count();
        state.oracle.must(open == 0, || format!("{open} calls are under way"));
    });
    for life in ended {
        let report = life.factory.shutdown().await;
        let clean = report.is_clean() || !is_alive(world, &life);
        world.with(|s| s.oracle.must(clean, || format!("link {}: {report:?}", life.link)));
        drop(life);
    }
    // The time within which a worker has ended: the time limit of a shutdown.
    sleep(Duration::from_secs(10) + Duration::from_millis(1)).await;
    let tasks = Handle::current().metrics().num_alive_tasks();
    world.with(|s| {
        s.note(Who::Store(0), "is left with tasks", (tasks as u64, 0));
        s.oracle.must(tasks == 1, || format!("{} tasks are left", tasks - 1));
    });
}
