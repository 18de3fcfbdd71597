//! A process that is stopped while it is the leader, and continues after its lease has ended.

use crate::fleet::{Fleet, secs};
use lock_core::{
    LockFactory,
    clock::{Clock, Moment, TestClock, UtcTime},
};
use lock_cron::{
    Schedule, Scheduler,
    observer::{CronEvent, CronObserver},
};
use std::sync::{Arc, Mutex};
use tokio::time::sleep;

/// The clock of a process that stops for half a minute when triggered by an observer. Afterwards it shows a later time
/// before any timer fires.
#[derive(Debug, Clone)]
struct Process {
    clock: Arc<TestClock>,
    stopped_at: Arc<Mutex<Option<Moment>>>,
    events: Arc<Mutex<Vec<String>>>,
}

impl Clock for Process {
    fn now(&self) -> Moment {
        let stopped = self.stopped_at.lock().expect("not poisoned").is_some();
        self.clock.now() + if stopped { secs(30) } else { secs(0) }
    }

    fn wall(&self) -> UtcTime {
        self.clock.wall()
    }
}

impl CronObserver for Process {
    fn on_event(&self, event: &CronEvent<'_>) {
        let mut stopped_at = self.stopped_at.lock().expect("not poisoned");
        let due = self.clock.now() > Moment::START + secs(5);
        match event {
            // Sent by a task of the scheduler, whose next step is planning.
            CronEvent::ClockCompared { .. } if due && stopped_at.is_none() => {
                *stopped_at = Some(self.clock.now());
                self.clock.step_wall(30_000_000);
            }
            CronEvent::ClockCompared { .. } => {}
            _ if stopped_at.is_some() => {
                self.events.lock().expect("not poisoned").push(format!("{event:?}"));
            }
            _ => {}
        }
    }
}

/// Records the jumps of the node's clock, in whole seconds.
#[derive(Debug, Clone, Default)]
struct Jumps(Arc<Mutex<Vec<f64>>>);

impl CronObserver for Jumps {
    fn on_event(&self, event: &CronEvent<'_>) {
        if let CronEvent::ClockChanged { by, .. } = event {
            self.0.lock().expect("not poisoned").push(by.round());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn jump_of_either_clock_is_reported_once() {
    let (fleet, clock, jumps) = (Fleet::new(), Arc::new(TestClock::new()), Jumps::default());
    let locks =
        LockFactory::builder(fleet.memory.clone()).clock(clock.clone()).build().expect("valid options");
    let builder = Scheduler::builder(locks, fleet.ledger.clone()).observer(jumps.clone());
    let cron = builder.build().expect("valid options");
    let yearly = Schedule::cron("@yearly").expect("valid schedule");
    cron.job("job", yearly, |_| async { Ok(()) }).register().expect("valid job");
    let running = tokio::spawn(async move { cron.run_until(sleep(secs(40))).await });
    for (of, seconds) in [(&clock, 3), (&clock, 100), (&fleet.clock, 20)] {
        sleep(secs(10)).await;
        of.step_wall(seconds * 1_000_000);
    }
    running.await.expect("no panic").expect("clean shutdown");
    assert_eq!(*jumps.0.lock().expect("not poisoned"), [100.0, -20.0]);
}

#[tokio::test(start_paused = true)]
async fn suspended_leader_resigns_before_it_plans() {
    let fleet = Fleet::new();
    let process = Process { clock: fleet.clock.clone(), stopped_at: Arc::default(), events: Arc::default() };
    let locks = LockFactory::builder(fleet.memory.clone()).clock(Arc::new(process.clone()));
    let locks = locks.build().expect("valid options");
    let cron = Scheduler::builder(locks, fleet.ledger.clone())
        .observer(process.clone())
        .build()
        .expect("valid options");
    let every_second = Schedule::cron("* * * * * *").expect("valid schedule");
    cron.job("job", every_second, |_| async { Ok(()) }).register().expect("healthy store");
    cron.run_until(sleep(secs(30))).await.expect("clean shutdown");
    let events = process.events.lock().expect("not poisoned");
    let at = |word: &str| events.iter().position(|event| event.starts_with(word));
    assert_eq!(at("Resigned"), Some(0), "{events:#?}");
    assert!(at("Skipped").is_some() && at("Leading") < at("Skipped"), "{events:#?}");
}
