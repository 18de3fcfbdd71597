//! A process, which is a factory with its clients: started, shut down, killed and started again.
//!
//! Its events go to the oracle, and to the gauges that must be zero at the end.

use crate::{
    backend::SimBackend,
    client::Client,
    clock::{ProcessClock, micros},
    net::Link,
    oracle::SLACK,
    pipeline::Connection,
    state::Order,
    trace::Who,
    world::{Stoppable, World},
};
use lock_core::{
    HoldEnd, Limits, LockFactory, LostReason, Store,
    backend::ProcessId,
    observer::{GrantSource, LockEvent, LockEventKind, LockObserver, ReleaseKind},
};
use lock_testkit::{Seed, Stream, planted::PlantedBug};
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicI64, Ordering},
    },
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
    identity: Identity,
}

/// The part of a process that a copy shares. Nothing else matters of one that holds and requests nothing.
#[derive(Debug, Clone)]
struct Identity {
    id: ProcessId,
    numbers: Arc<Mutex<Stream>>,
    clock: Arc<ProcessClock>,
}

impl Identity {
    fn draw(world: &Arc<World>, process: usize, dice: &mut Stream) -> Self {
        let (mut ids, plan, bug) = (dice.clone(), world.with(|s| s.plan.clone()), world.with(|s| s.bug));
        dice.number();
        let ahead = dice.below(1_000_000);
        let ppm = if bug == Some(PlantedBug::SlowClock) { -40_000 } else { plan.process_ppm[process] };
        let clock = Arc::new(ProcessClock::new(world.origin, ppm, ahead, plan.wall_ahead[process]));
        let link = world.with(|state| {
            if state.is_paused(process) {
                clock.stop_at(state.pauses[process].from);
            }
            state.links.len()
        });
        let id = ProcessId::from_uuid(uuid::Uuid::from_u64_pair(ids.number(), link as u64));
        Self { id, numbers: Arc::new(Mutex::new(ids)), clock }
    }

    /// Returns that of a copy. The operating system's random numbers are not copied.
    fn copy(&self, bug: Option<PlantedBug>, dice: &mut Stream) -> Self {
        let fresh = Seed::new(dice.number()).stream();
        let numbers = match bug {
            Some(PlantedBug::DrawsIdsAhead) => drawn(&self.numbers).clone(),
            _ => fresh,
        };
        Self { numbers: Arc::new(Mutex::new(numbers)), ..self.clone() }
    }
}

fn drawn(numbers: &Mutex<Stream>) -> MutexGuard<'_, Stream> {
    numbers.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Life {
    fn begin(world: &Arc<World>, process: usize, dice: &mut Stream) -> Self {
        let identity = Identity::draw(world, process, dice);
        Self::with(world, process, dice, identity)
    }

    /// Begins the life of a copy of this process, beside its own.
    fn copy(&self, world: &Arc<World>, dice: &mut Stream) -> Self {
        let bug = world.with(|state| {
            state.count("copy");
            state.note(Who::Link(self.link), "is copied", (0, 0));
            let of_life = self.link..self.link + state.stores.len();
            state.links[of_life].iter_mut().for_each(|link| link.copied = true);
            state.bug
        });
        let identity = self.identity.copy(bug, dice);
        Self::with(world, self.process, dice, identity)
    }

    fn with(world: &Arc<World>, process: usize, dice: &Stream, identity: Identity) -> Self {
        let (plan, bug) = world.with(|state| (state.plan.clone(), state.bug));
        let clock = identity.clock.clone();
        let link = world.with(|state| {
            let first = state.links.len();
            let of_life = (0..state.stores.len()).map(|node| Link::new(process, node, clock.clone()));
            state.links.extend(of_life);
            first
        });
        let ear = Arc::new(Ear::new(Arc::downgrade(world), link));
        let backend = || SimBackend { world: world.clone(), link, bug };
        let spread = Mutex::new(Seed::new(dice.clone().number()).stream());
        let spread = move || spread.lock().unwrap_or_else(PoisonError::into_inner).number();
        // These two bugs are planted in the futures of the backend.
        let in_futures = [Some(PlantedBug::DropsReleases), Some(PlantedBug::HidesResends)].contains(&bug);
        let store = match (plan.quorum, plan.batching.filter(|_| !in_futures)) {
            (Some(quorum), _) => {
                let quorum = Arc::new(quorum.backend(world, link, bug, clock.clone(), spread));
                let store = Store::polling(quorum.clone());
                if plan.push { store.pushing(quorum) } else { store }
            }
            (None, batching) => {
                let store = match batching {
                    Some(batching) => {
                        let (batches, connection) = Connection::open(backend(), batching);
                        tokio::spawn(Stoppable::new(world, process, connection.carry()));
                        Store::new(Arc::new(batches))
                    }
                    None => Store::polling(Arc::new(backend())),
                };
                if plan.push { store.pushing(Arc::new(backend())) } else { store }
            }
        };
        let numbers = identity.numbers.clone();
        let random = move || drawn(&numbers).number();
        let builder = LockFactory::builder(store)
            .clock(clock)
            .observer(ear.clone())
            .options(plan.menu[0].options)
            .limits(Limits::new().waiters_per_name(plan.waiters_per_name))
            .repeatable(identity.id, random);
        let factory = builder.build().expect("consistent options");
        world.with(|state| state.note(Who::Link(link), "is born", (process as u64, 0)));
        Self { process, link, factory, ear, identity }
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
    let (mut undertakers, mut copies) = (JoinSet::new(), JoinSet::new());
    loop {
        let life = Life::begin(&world, process, &mut dice);
        let mut clients = life.clients(&world, &mut dice);
        let order = loop {
            tokio::select! {
                biased;
                () = world.orders[process].notified() => {
                    match world.with(|state| state.orders[process].take()) {
                        Some(Order::Copy) => {
                            let copy = life.copy(&world, &mut dice);
                            let clients = copy.clients(&world, &mut dice);
                            copies.spawn(to_the_end(copy, clients));
                        }
                        None => {}
                        order => break order,
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
            None | Some(Order::Copy) => {
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
    while let Some(copy) = copies.join_next().await {
        lives.push(copy.expect("clients do not panic"));
    }
    lives
}

/// Lives until the end of the run.
async fn to_the_end(life: Life, mut clients: JoinSet<()>) -> Life {
    while let Some(done) = clients.join_next().await {
        done.expect("clients do not panic");
    }
    life
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

#[derive(Debug)]
pub(crate) struct Ear {
    pub(crate) world: Weak<World>,
    pub(crate) link: usize,
    pub(crate) holding: AtomicI64,
    pub(crate) waiting: AtomicI64,
}

impl Ear {
    pub(crate) fn new(world: Weak<World>, link: usize) -> Self {
        Self { world, link, holding: AtomicI64::new(0), waiting: AtomicI64::new(0) }
    }
}

fn lost(reason: LostReason) -> &'static str {
    match reason {
        LostReason::Expired => "lost: expired",
        LostReason::Gone => "lost: gone",
        LostReason::MaxHold => "lost: max hold",
        LostReason::Unclaimed => "lost: unclaimed",
        LostReason::ShutDown => "lost: shut down",
        _ => "lost: for another reason",
    }
}

impl LockObserver for Ear {
    fn on_event(&self, event: &LockEvent<'_>) {
        let Some(world) = self.world.upgrade() else { return };
        let (who, link) = (Who::Link(self.link), self.link);
        world.with(|state| match event.kind {
            LockEventKind::WaitStarted => {
                self.waiting.fetch_add(1, Ordering::Relaxed);
            }
            LockEventKind::WaitEnded { outcome, waited, .. } => {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                state.note(who, "wait ended", (outcome as u64, waited.as_micros() as u64));
            }
            LockEventKind::Granted { token, lease, source, .. } => {
                self.holding.fetch_add(1, Ordering::Relaxed);
                if source == GrantSource::HandOff {
                    state.count("hand-off");
                }
                state.note(who, "granted", (lease.number().get(), token.get()));
                state.oracle.granted(state.now, link, event.name, (lease, token));
            }
            LockEventKind::Ended { token, lease, end, .. } => {
                self.holding.fetch_sub(1, Ordering::Relaxed);
                let (code, counted) = match end {
                    HoldEnd::Released => (0, None),
                    HoldEnd::Lost(reason) => (1 + reason as u64, Some(lost(reason))),
                    _ => panic!("an unknown end: {end:?}"),
                };
                state.note(who, "hold ended", (lease.number().get(), code));
                counted.into_iter().for_each(|what| state.count(what));
                let pause = &state.pauses[state.links[link].process];
                state.oracle.ended(state.now, (event.name, lease, token), end, &state.links[link], pause);
            }
            LockEventKind::GuardReleased { outcome, kind: ReleaseKind::Explicit, .. } => {
                state.note(who, "release answered", (outcome.is_some().into(), 0));
            }
            LockEventKind::Renewal { outcome, took, .. } => {
                state.note(who, "renewal", (outcome as u64, took.as_micros() as u64));
            }
            LockEventKind::RenewalFailed { token, .. } => state.note(who, "suspect", (token.get(), 0)),
            _ => {}
        });
    }
}
