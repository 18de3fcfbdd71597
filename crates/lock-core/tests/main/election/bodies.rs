//! The ends of bodies: success, errors, panics, losses.

use super::{candidate, candidate_with, is_jittered, seconds};
use crate::support::{World, secs};
use lock_core::{
    clock::{Clock, Moment, TestClock, UtcTime},
    election::{LeadEnd, Role},
};
use lock_testkit::{Fault, Op};
use std::{
    convert::Infallible,
    fmt,
    future::pending,
    panic::resume_unwind,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn success_ends_the_campaigns() {
    let world = World::new();
    let (election, log) = candidate(&world);
    let leading = election.lead(|term| async move {
        assert!(term.is_leading());
        assert_eq!(term.fencing_token(), term.hold().fencing_token());
        Ok::<_, Infallible>(())
    });
    assert_eq!(leading.until(pending()).await.unwrap(), LeadEnd::Finished);
    assert_eq!(log.take(), ["term started", "term finished", "hold ended"]);
    assert!(matches!(*election.role().borrow(), Role::Idle));
    sleep(secs(3)).await;
    world.assert_nothing_left();
}

#[tokio::test(start_paused = true)]
async fn errors_are_followed_by_campaigns_with_growing_pauses() {
    let world = World::new();
    let (election, _) = candidate(&world);
    let begun = Mutex::new(Vec::new());
    let leading = election.lead(|term| {
        let mut begun = begun.lock().unwrap();
        begun.push((seconds(&world), term.fencing_token()));
        let times = begun.len();
        async move { if times < 9 { Err("not yet") } else { Ok(()) } }
    });
    assert_eq!(leading.until(pending()).await.unwrap(), LeadEnd::Finished);
    let begun = begun.into_inner().unwrap();
    assert!(begun.is_sorted_by(|a, b| a.1 < b.1), "each term has a greater token: {begun:?}");
    let pauses: Vec<_> = begun.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    for (pause, delay) in pauses.iter().zip([1, 2, 4, 8, 16]) {
        assert!(is_jittered(*pause, secs(delay)), "{pause} s after {delay} s: {pauses:?}");
    }
    assert!(pauses[5..].iter().all(|pause| (pause - 30.0).abs() < 0.01), "{pauses:?}");
    assert!(pauses[..5].iter().any(|pause| pause.fract() > 0.01), "they are jittered: {pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn back_off_restarts_after_a_long_term() {
    let world = World::new();
    let (election, _) = candidate(&world);
    let mut terms = 0;
    let mut ended = Vec::new();
    let mut pauses = Vec::new();
    let ends = Arc::new(Mutex::new(Vec::new()));
    let leading = election.lead(|_| {
        pauses.extend(ends.lock().unwrap().last().map(|end| seconds(&world) - end));
        terms += 1;
        let (lasts, ends, last) = (if terms == 3 { secs(30) } else { secs(0) }, ends.clone(), terms == 4);
        let world = &world;
        async move {
            sleep(lasts).await;
            ends.lock().unwrap().push(seconds(world));
            if last { Ok(()) } else { Err("no") }
        }
    });
    leading.until(pending()).await.unwrap();
    ended.append(&mut ends.lock().unwrap());
    for (pause, delay) in pauses.iter().zip([1, 2, 1]) {
        assert!(is_jittered(*pause, secs(delay)), "{pause} s after {delay} s: {pauses:?}, {ended:?}");
    }
}

/// An error whose text panics.
struct Mute;

impl fmt::Display for Mute {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        resume_unwind(Box::new("no text"))
    }
}

#[tokio::test(start_paused = true)]
async fn panics_count_as_errors() {
    let world = World::new();
    let (election, log) = candidate(&world);
    let mut terms = 0;
    let leading = election.lead(|_| {
        terms += 1;
        let term = terms;
        if term == 1 {
            resume_unwind(Box::new("in the call"));
        }
        async move {
            match term {
                2 => resume_unwind(Box::new(String::from("in the future"))),
                3 => Err(Mute),
                _ => Ok(()),
            }
        }
    });
    assert_eq!(leading.until(pending()).await.unwrap(), LeadEnd::Finished);
    let lines = log.take();
    let failed: Vec<_> = lines.iter().filter(|line| line.starts_with("term failed")).collect();
    assert_eq!(
        failed,
        ["term failed: in the call", "term failed: in the future", "term failed: no text"],
        "{lines:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn body_that_panics_on_drop_ends_only_its_term() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            resume_unwind(Box::new("in its drop"));
        }
    }
    let world = World::new();
    let (election, log) = candidate(&world);
    let mut terms = 0;
    let leading = election.lead(|_| {
        terms += 1;
        let again = terms == 2;
        async move {
            if !again {
                let _panics = Panics;
                pending::<()>().await;
            }
            Ok::<_, Infallible>(())
        }
    });
    let resigns = async {
        sleep(secs(1)).await;
        election.resign();
    };
    let (end, ()) = tokio::join!(leading.until(pending()), resigns);
    assert_eq!(end.unwrap(), LeadEnd::Finished);
    assert_eq!(log.take()[..3], ["term started", "term failed: in its drop", "hold ended"]);
}

#[tokio::test(start_paused = true)]
async fn lost_lock_drops_the_body_before_its_next_poll() {
    let world = World::new();
    let (election, log) = candidate(&world);
    let (ticks, role) = (Arc::new(Mutex::new(Vec::new())), election.role());
    let written = ticks.clone();
    let (clock, events) = (world.clock.clone(), log.clone());
    let leading = election.lead(move |term| {
        let (ticks, clock, dropped) = (written.clone(), clock.clone(), events.at_drop("body dropped"));
        async move {
            let _dropped = dropped;
            loop {
                ticks.lock().unwrap().push((clock.now(), term.is_leading()));
                sleep(secs(1)).await;
            }
            #[allow(unreachable_code, reason = "it says the type of the error")]
            Ok::<_, Infallible>(())
        }
    });
    let leading = tokio::spawn(leading.until(pending()));
    sleep(Duration::from_millis(500)).await;
    assert!(role.borrow().is_leading());
    // As if the process was stopped for four leases: the timers of the body and of the lock fire at once.
    tokio::time::advance(secs(60)).await;
    assert!(!role.borrow().is_leading(), "the role is right before any task runs");
    world.settle().await;
    assert_eq!(log.take(), ["term started", "body dropped", "term lost", "hold ended"]);
    assert!(!role.borrow().is_leading());
    let before = ticks.lock().unwrap().len();
    sleep(secs(5)).await;
    assert!(role.borrow().is_leading(), "it campaigned again");
    let ticks = ticks.lock().unwrap();
    assert!(ticks.len() > before && ticks.iter().all(|(_, leading)| *leading), "{ticks:?}");
    leading.abort();
}

/// A clock that a test can move inside of a poll.
#[derive(Debug)]
struct Jumps(Arc<TestClock>, AtomicU64);

impl Clock for Jumps {
    fn now(&self) -> Moment {
        self.0.now() + secs(self.1.load(SeqCst))
    }

    fn wall(&self) -> UtcTime {
        self.0.wall()
    }
}

#[tokio::test(start_paused = true)]
async fn success_after_the_deadline_is_a_loss() {
    let world = World::new();
    let clock = Arc::new(Jumps(world.clock.clone(), AtomicU64::new(0)));
    let (election, log) = candidate_with(&world, clock.clone());
    let mut terms = 0;
    let leading = election.lead(|_| {
        terms += 1;
        let blocks = terms == 1;
        let clock = clock.clone();
        async move {
            if blocks {
                clock.1.store(60, SeqCst);
            }
            Ok::<_, Infallible>(())
        }
    });
    assert_eq!(leading.until(pending()).await.unwrap(), LeadEnd::Finished);
    let mut lines = log.take();
    lines.retain(|line| line.starts_with("term"));
    assert_eq!(lines, ["term started", "term lost", "term started", "term finished"]);
}

#[tokio::test(start_paused = true)]
async fn outage_ends_the_term_and_is_waited_out() {
    let world = World::new();
    let (election, log) = candidate(&world);
    let role = election.role();
    let leading = tokio::spawn(election.lead(|_| pending::<Result<(), Infallible>>()).until(pending()));
    sleep(secs(1)).await;
    assert!(role.borrow().is_leading());
    world.faulty.always_all(Fault::Hang);
    sleep(secs(15)).await;
    assert!(!role.borrow().is_leading(), "the lease is over");
    assert_eq!(log.take(), ["term started", "term lost", "hold ended"]);
    sleep(secs(300)).await;
    assert_eq!(log.take(), [""; 0]);
    world.faulty.heal();
    sleep(secs(5)).await;
    assert!(role.borrow().is_leading(), "it continues when the store does");
    leading.abort();
}

#[tokio::test(start_paused = true)]
async fn pauses_after_losses_do_not_grow() {
    let world = World::new();
    let (election, _) = candidate(&world);
    let mut role = election.role();
    let leading = tokio::spawn(election.lead(|_| pending::<Result<(), Infallible>>()).until(pending()));
    role.wait_for(Role::is_leading).await.unwrap();
    for _ in 0..6 {
        world.another_process().force_release("x").await.unwrap();
        role.wait_for(|role| !role.is_leading()).await.unwrap();
        let lost = seconds(&world);
        role.wait_for(Role::is_leading).await.unwrap();
        let pause = seconds(&world) - lost;
        assert!(is_jittered(pause, secs(1)), "{pause} s");
    }
    leading.abort();
}

#[tokio::test(start_paused = true)]
async fn store_rejections_are_waited_out() {
    let world = World::new();
    let (election, _) = candidate(&world);
    let refusal = Fault::Refuse(lock_core::backend::BackendErrorKind::Denied);
    world.faulty.script(Op::Acquire, [refusal; 5]);
    let began = seconds(&world);
    let leading = election.lead(|_| async { Ok::<_, Infallible>(()) });
    leading.until(pending()).await.unwrap();
    let took = seconds(&world) - began;
    assert!((5.0..6.5).contains(&took), "a second for each, and jitter: {took} s");
}

/// The future of `until` can be spawned if the body's can.
#[test]
fn lead_future_is_send() {
    fn is_send<T: Send>(_: impl FnOnce() -> T) {}
    is_send(|| {
        let locks = lock_core::LockFactory::new(lock_core::MemoryBackend::new());
        let leading = locks
            .election("x")
            .unwrap()
            .lead(|_| async { Err::<(), _>(Box::<dyn std::error::Error>::from("")) });
        leading.until(async {})
    });
}
