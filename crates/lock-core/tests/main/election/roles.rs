//! The role of each process, as readiness probes and metrics see it.

use super::{Log, candidate};
use crate::support::{World, secs};
use lock_core::{
    LockFactory,
    election::{Election, Role},
};
use std::{convert::Infallible, future::pending};
use tokio::{task::JoinHandle, time::sleep};

/// Writes each role that a probe could see; `leaders` have names.
fn record(election: &Election, leaders: &[(&'static str, &LockFactory)]) -> Log {
    let (log, mut role) = (Log::default(), election.role());
    let leaders: Vec<_> = leaders.iter().map(|(name, locks)| (*name, locks.process_id())).collect();
    let written = log.clone();
    tokio::spawn(async move {
        loop {
            written.write(match &*role.borrow_and_update() {
                Role::Idle => "idle".to_owned(),
                Role::Leading(_) => "leading".to_owned(),
                Role::Following { leader: None } => "following".to_owned(),
                Role::Following { leader: Some(leader) } => {
                    let name = leaders.iter().find(|(_, process)| Some(*process) == leader.process());
                    format!("following {}", name.map_or("a stranger", |(name, _)| name))
                }
                other => format!("{other:?}"),
            });
            if role.changed().await.is_err() {
                return;
            }
        }
    });
    log
}

/// Campaigns until it is aborted, and leads for so long.
fn leads(election: &Election, terms: u64) -> JoinHandle<()> {
    let leading = election.lead(move |_| async move {
        sleep(secs(terms)).await;
        Ok::<_, Infallible>(())
    });
    tokio::spawn(async move { drop(leading.until(pending()).await) })
}

#[tokio::test(start_paused = true)]
async fn each_process_sees_roles_in_order() {
    let world = World::new();
    let (a, b) = (world.another_process(), world.another_process());
    let (first, second) = (a.election("x").unwrap(), b.election("x").unwrap());
    let names = [("a", &a), ("b", &b)];
    let (of_first, of_second) = (record(&first, &names), record(&second, &names));
    world.settle().await;
    leads(&first, 20);
    sleep(secs(1)).await;
    leads(&second, 20);
    sleep(secs(60)).await;
    assert_eq!(of_first.take(), ["idle", "leading", "idle"]);
    assert_eq!(of_second.take(), ["idle", "following a", "leading", "idle"]);
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn followers_see_a_new_leader_within_a_third_of_the_lease() {
    let world = World::new();
    let (a, b, c) = (world.another_process(), world.another_process(), world.another_process());
    let elections = [&a, &b, &c].map(|locks| locks.election("x").unwrap());
    let names = [("a", &a), ("b", &b), ("c", &c)];
    let logs = [&elections[1], &elections[2]].map(|election| record(election, &names));
    leads(&elections[0], 20);
    sleep(secs(1)).await;
    leads(&elections[1], 100);
    sleep(secs(1)).await;
    leads(&elections[2], 100);
    sleep(secs(17)).await;
    assert_eq!(logs.each_ref().map(Log::take), [["idle", "following a"]; 2]);
    sleep(secs(6)).await; // a second until the change, and 5 s
    // The first one that asks is elected.
    let roles = logs.each_ref().map(|log| log.take().join(", "));
    let is_right = match elections[1].role().borrow().is_leading() {
        true => roles == ["leading", "following b"],
        false => roles == ["following c", "leading"],
    };
    assert!(is_right, "{roles:?}");
}

#[tokio::test(start_paused = true)]
async fn holder_of_the_lock_is_the_leader() {
    let world = World::new();
    let foreign = world.another_process().named("x").unwrap().acquire().await.unwrap();
    let (election, _) = candidate(&world);
    let leading = leads(&election, 1);
    sleep(secs(1)).await;
    let seen = election.role().borrow().leader().cloned().unwrap();
    assert_eq!(seen.lease, foreign.hold().lease_id().to_string());
    assert_eq!(seen.process(), Some(foreign.hold().lease_id().process()));
    let mut stranger = seen.clone();
    stranger.lease = "another program".to_owned();
    assert_eq!(stranger.process(), None);
    leading.abort();
}

#[tokio::test(start_paused = true)]
async fn leader_is_visible_during_the_pause() {
    let world = World::new();
    let (election, _) = candidate(&world);
    let leading = election.lead(|_| async {
        sleep(secs(1)).await;
        Err::<(), _>("no")
    });
    let leading = tokio::spawn(async move { drop(leading.until(pending()).await) });
    // From here on it pauses for 30 s after each term.
    sleep(secs(120)).await;
    let mut role = election.role();
    role.wait_for(Role::is_leading).await.unwrap();
    let guard = world.another_process().named("x").unwrap().acquire().await.unwrap();
    sleep(secs(6)).await;
    assert!(election.role().borrow().leader().is_some());
    drop(guard);
    sleep(secs(6)).await;
    assert!(matches!(*election.role().borrow(), Role::Following { leader: None }));
    leading.abort();
}
