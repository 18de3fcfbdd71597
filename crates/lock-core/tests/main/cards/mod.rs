//! The cards of processes: written in the background, read by `inspect`, removed by a shutdown.

mod faults;
mod notes;

use crate::support::{millis, secs};
use async_trait::async_trait;
use lock_core::{
    LockFactory, MemoryBackend, Store,
    backend::{BackendError, Directory, ProcessId},
    clock::TestClock,
    inspect::{ListLimits, Listing, ProcessCard},
};
use std::{
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::sync::Semaphore;

/// The delay of the first card, and the pause between two renewals.
const FIRST: Duration = millis(500);
const RENEWAL: Duration = secs(20);

/// The cards of a memory store, with faults.
#[derive(Debug)]
struct Cards {
    memory: MemoryBackend,
    writes: AtomicUsize,
    fault: Mutex<Fault>,
}

#[derive(Debug, Clone, Default)]
enum Fault {
    #[default]
    None,
    Error(BackendError),
    Hang,
    Panic,
    /// A write waits for a permit, and is then carried out.
    Wait(Arc<Semaphore>),
}

impl Cards {
    fn set(&self, fault: Fault) {
        *self.fault.lock().unwrap() = fault;
    }

    fn writes(&self) -> usize {
        self.writes.load(SeqCst)
    }

    async fn fail(&self) -> Result<(), BackendError> {
        let fault = self.fault.lock().unwrap().clone();
        match fault {
            Fault::None => Ok(()),
            Fault::Error(error) => Err(error),
            Fault::Hang => pending().await,
            Fault::Panic => panic!("the directory panics"),
            Fault::Wait(permits) => {
                permits.acquire().await.unwrap().forget();
                Ok(())
            }
        }
    }
}

#[async_trait]
impl Directory for Cards {
    async fn write_card(
        &self,
        process: ProcessId,
        card: ProcessCard,
        ttl: Duration,
    ) -> Result<(), BackendError> {
        self.writes.fetch_add(1, SeqCst);
        self.fail().await?;
        self.memory.write_card(process, card, ttl).await
    }

    async fn remove_card(&self, process: ProcessId) -> Result<(), BackendError> {
        if !matches!(*self.fault.lock().unwrap(), Fault::Wait(_)) {
            self.fail().await?;
        }
        self.memory.remove_card(process).await
    }

    async fn read_card(&self, process: ProcessId) -> Result<Option<ProcessCard>, BackendError> {
        self.fail().await?;
        self.memory.read_card(process).await
    }

    async fn list(&self, prefix: String, limits: ListLimits) -> Result<Listing, BackendError> {
        self.memory.list(prefix, limits).await
    }
}

/// Two processes on one store. The first has the version 1.4.2 of the program `shop`.
struct Scene {
    memory: MemoryBackend,
    cards: Arc<Cards>,
    shop: LockFactory,
    other: LockFactory,
}

impl Scene {
    fn new() -> Self {
        let clock = Arc::new(TestClock::new());
        let memory = MemoryBackend::with_clock(clock.clone());
        let (writes, fault) = (AtomicUsize::new(0), Mutex::default());
        let cards = Arc::new(Cards { memory: memory.clone(), writes, fault });
        let store = Store::from(memory.clone()).with_directory(cards.clone());
        let shop = LockFactory::builder(store.clone()).clock(clock.clone()).program("shop", "1.4.2");
        let shop = shop.build().unwrap();
        let other = LockFactory::builder(store).clock(clock).without_card().build().unwrap();
        Self { memory, cards, shop, other }
    }

    /// Returns the stored card of a process.
    async fn stored(&self, locks: &LockFactory) -> Option<ProcessCard> {
        self.memory.read_card(locks.process_id()).await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn inspect_names_the_process_of_another_holder() {
    let scene = Scene::new();
    assert_eq!(scene.other.inspect("x").await.unwrap().process, None, "nobody holds it");
    let _guard = scene.shop.named("x").unwrap().acquire().await.unwrap();
    assert_eq!(scene.cards.writes(), 0, "an acquire writes no card");
    tokio::time::sleep(FIRST + millis(1)).await;

    let inspection = scene.other.inspect("x").await.unwrap();
    let card = inspection.process.expect("it has a card");
    assert_eq!((card.program.as_str(), card.version.as_deref()), ("shop", Some("1.4.2")));
    assert_eq!(card.pid, std::process::id());
    assert!(!card.host.is_empty());
    assert_eq!(card.to_string(), format!("shop 1.4.2, pid {} on {}", card.pid, card.host));
    assert_eq!(scene.cards.writes(), 1);
}

#[tokio::test(start_paused = true)]
async fn card_is_renewed_and_expires_without_renewal() {
    let scene = Scene::new();
    assert_eq!(scene.cards.writes(), 0);
    let lock = scene.shop.named("x").unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
    tokio::time::sleep(secs(200) + FIRST + millis(1)).await;
    assert_eq!(scene.cards.writes(), 11, "one every 20 s");
    let card = scene.stored(&scene.shop).await.expect("it is renewed");

    let dead = ProcessId::random();
    scene.memory.write_card(dead, card, secs(60)).await.unwrap();
    tokio::time::sleep(secs(59)).await;
    assert!(scene.memory.read_card(dead).await.unwrap().is_some());
    tokio::time::sleep(secs(1)).await;
    assert_eq!(scene.memory.read_card(dead).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn shutdown_removes_the_card() {
    let scene = Scene::new();
    let guard = scene.shop.named("x").unwrap().acquire().await.unwrap();
    tokio::time::sleep(FIRST + millis(1)).await;
    assert!(scene.stored(&scene.shop).await.is_some());
    assert!(scene.shop.shutdown().await.is_clean());
    assert_eq!(scene.stored(&scene.shop).await, None);
    drop(guard);
    tokio::time::sleep(secs(100)).await;
    assert_eq!(scene.cards.writes(), 1);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_factory_removes_the_card() {
    let Scene { shop, memory, .. } = Scene::new();
    let process = shop.process_id();
    let guard = shop.named("x").unwrap().acquire().await.unwrap();
    tokio::time::sleep(FIRST + millis(1)).await;
    drop(shop);
    tokio::time::sleep(RENEWAL * 4).await;
    assert!(memory.read_card(process).await.unwrap().is_some(), "a guard is left");
    drop(guard);
    tokio::time::sleep(millis(1)).await;
    assert_eq!(memory.read_card(process).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn factory_without_a_card_writes_none() {
    let scene = Scene::new();
    let guard = scene.other.named("x").unwrap().acquire().await.unwrap();
    guard.note("42 %");
    tokio::time::sleep(secs(100)).await;
    assert_eq!(scene.cards.writes(), 0);
    let inspection = scene.shop.inspect("x").await.unwrap();
    assert!(inspection.stored.is_some() && inspection.process.is_none() && inspection.note().is_none());
    assert!(scene.other.shutdown().await.is_clean());
}

/// Another process may write anything into the store.
#[tokio::test(start_paused = true)]
async fn hostile_card_is_truncated_and_escaped() {
    let scene = Scene::new();
    let _guard = scene.shop.named("x").unwrap().acquire().await.unwrap();
    tokio::time::sleep(FIRST + millis(1)).await;
    let mut card = scene.stored(&scene.shop).await.unwrap();
    card.host = "\x1b[2J".repeat(100_000);
    card.program = "a\nERROR b\0".to_owned();
    scene.memory.write_card(scene.shop.process_id(), card, secs(60)).await.unwrap();
    let card = scene.other.inspect("x").await.unwrap().process.unwrap();
    assert_eq!(card.program, "a\\nERROR b\\u{0}");
    assert_eq!(card.host.len(), ProcessCard::MAX_TEXT_CHARS);
    assert!(!card.to_string().contains(char::is_control));
}
