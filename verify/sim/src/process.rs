//! A process, which is a factory with its clients: started, shut down, killed and started again.

use crate::{
    backend::SimBackend,
    client::Client,
    clock::{ProcessClock, micros},
    gate::Stoppable,
    link::Link,
    observer::Ear,
    oracle::SLACK,
    pipeline::Connection,
    state::Order,
    trace::Who,
    world::World,
};
use lock_core::{Limits, LockFactory, Store, backend::ProcessId};
use lock_testkit::{Seed, Stream, planted::PlantedBug};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::task::JoinSet;

/// One life of a process.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) process: usize,
    pub(crate) link: usize,
    pub(crate) factory: LockFactory,
    pub(crate) ear: Arc<Ear>,
}

impl Life {
    fn begin(world: &Arc<World>, process: usize, dice: &mut Stream) -> Self {
        let (mut ids, plan, bug) = (dice.clone(), world.with(|s| s.plan.clone()), world.with(|s| s.bug));
        dice.number();
        let ahead = dice.below(1_000_000);
        let ppm = if bug == Some(PlantedBug::SlowClock) { -40_000 } else { plan.process_ppm[process] };
        let clock = Arc::new(ProcessClock::new(world.origin, ppm, ahead, plan.wall_ahead[process]));
        let link = world.with(|state| {
            if state.is_paused(process) {
                clock.stop_at(state.pauses[process].from);
            }
            let first = state.links.len();
            let of_life = (0..state.stores.len()).map(|node| Link::new(process, node, clock.clone()));
            state.links.extend(of_life);
            first
        });
        let ear = Arc::new(Ear::new(Arc::downgrade(world), link));
        let backend = || SimBackend { world: world.clone(), link, bug };
        let spread = Mutex::new(Seed::new(dice.clone().number()).stream());
        let spread = move || spread.lock().unwrap_or_else(PoisonError::into_inner).number();
        let mut store = match (plan.quorum, plan.push) {
            (Some(quorum), true) => Store::from(quorum.backend(world, link, bug, clock.clone(), spread)),
            (Some(quorum), false) => Store::polling(quorum.backend(world, link, bug, clock.clone(), spread)),
            (None, true) => Store::from(Arc::new(backend())),
            (None, false) => Store::polling(backend()),
        };
        // These two bugs are planted in the futures of the backend.
        let in_futures = [Some(PlantedBug::DropsReleases), Some(PlantedBug::HidesResends)].contains(&bug);
        if let Some(batching) = plan.batching.filter(|_| !in_futures) {
            let (pipeline, connection) = Connection::open(world, link, bug, batching);
            tokio::spawn(Stoppable::new(world, process, connection.carry()));
            store = store.pipelined(Arc::new(pipeline));
        }
        let id = uuid::Uuid::from_u64_pair(ids.number(), link as u64);
        let numbers = Mutex::new(ids);
        let random = move || numbers.lock().unwrap_or_else(PoisonError::into_inner).number();
        let builder = LockFactory::builder(store)
            .clock(clock)
            .observer(ear.clone())
            .options(plan.menu[0].options)
            .limits(Limits::new().waiters_per_name(plan.waiters_per_name))
            .repeatable(ProcessId::from_uuid(id), random);
        let factory = builder.build().expect("consistent options");
        world.with(|state| state.note(Who::Link(link), "is born", (process as u64, 0)));
        Self { process, link, factory, ear }
    }

    fn clients(&self, world: &Arc<World>, dice: &mut Stream) -> JoinSet<()> {
        let mut clients = JoinSet::new();
        for _ in 0..world.with(|state| state.plan.clients) {
            let client = Client {
                world: world.clone(),
                link: self.link,
                process: self.process,
                factory: self.factory.clone(),
                dice: Seed::new(dice.number()).stream(),
            };
            clients.spawn(Stoppable::new(world, self.process, client.work()));
        }
        clients
    }
}

/// Starts one life after another until the run ends. Returns all lives; the last one is still active.
pub(crate) async fn lives(world: Arc<World>, process: usize, mut dice: Stream) -> Vec<Life> {
    let mut lives = Vec::new();
    let mut undertakers = JoinSet::new();
    loop {
        let life = Life::begin(&world, process, &mut dice);
        let mut clients = life.clients(&world, &mut dice);
        let order = loop {
            tokio::select! {
                biased;
                () = world.orders[process].notified() => {
                    let order = world.with(|state| state.orders[process].take());
                    if order.is_some() {
                        break order;
                    }
                }
                done = clients.join_next() => match done {
                    Some(done) => done.expect("clients do not panic"),
                    None => break None,
                }
            }
        };
        let link = life.link;
        match order {
            None => {
                lives.push(life);
                break;
            }
            Some(Order::Die) => {
                world.with(|state| {
                    state.count("crash");
                    state.note(Who::Link(link), "dies", (0, 0));
                    state.disconnect(link);
                });
                clients.abort_all();
                while clients.join_next().await.is_some() {}
                let factory = life.factory.clone();
                undertakers.spawn(async move { drop(factory.shutdown().await) });
            }
            Some(Order::ShutDown) => {
                shut_down(&world, &life).await;
                while let Some(done) = clients.join_next().await {
                    done.expect("clients do not panic");
                }
                world.with(|state| state.disconnect(link));
            }
        }
        lives.push(life);
        if world.with(|state| state.closing) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(dice.below(1_000))).await;
    }
    while undertakers.join_next().await.is_some() {}
    lives
}

async fn shut_down(world: &Arc<World>, life: &Life) {
    let (began, most) = world.with(|state| {
        state.count("shutdown");
        state.note(Who::Link(life.link), "shuts down", (0, 0));
        let of_life = life.link..life.link + state.stores.len();
        state.links[of_life].iter_mut().for_each(|link| link.closed = true);
        (state.now, micros(state.plan.longest_operation()) * 2)
    });
    let closing = life.factory.shutdown_within(Duration::from_micros(most));
    let report = Stoppable::new(world, life.process, closing).await;
    world.with(|state| {
        let took = state.now - began;
        let paused = state.pauses[life.process].felt_until() >= began;
        state.note(Who::Link(life.link), "is shut down", (report.is_clean().into(), took));
        state.oracle.must(paused || took <= most + SLACK, || format!("a shutdown took {took} µs of {most}"));
    });
}
