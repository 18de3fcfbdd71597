//! Subscriptions on real servers: acknowledged by the server, and renewed after a loss.

use super::support::{HANGS, WakeUps, answered, factory, long, name, redis, until};
use lock_core::{
    LockFactory, LockName,
    backend::{BackendErrorKind, MissedWakes, Subscriptions as _, WakeListener},
    observer::WakeSource,
};
use lock_testkit::{RedisServer, TcpProxy};
use std::{
    sync::{
        Arc, Barrier, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

const LEASE: Duration = Duration::from_secs(30);

/// Counts its wake-ups.
#[derive(Debug, Default)]
struct Listener {
    heard: AtomicUsize,
}

impl WakeListener for Listener {
    fn released(&self, _: &LockName) {
        self.heard.fetch_add(1, Ordering::SeqCst);
    }
    fn wake_all(&self, _: MissedWakes) {}
    fn server_restarted(&self) {}
}

fn weak(listener: &Arc<Listener>) -> Weak<dyn WakeListener> {
    let listener: Arc<dyn WakeListener> = listener.clone();
    Arc::downgrade(&listener)
}

/// The client library does not match the answers to SUBSCRIBE.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_subscription_is_never_acknowledged() {
    let server = RedisServer::builder().user("shop on >secret ~* &* +@all").start();
    let backend = redis(&format!("redis://shop:secret@127.0.0.1:{}", server.port())).await;
    let listener = Arc::new(Listener::default());
    let id = backend.register_listener(weak(&listener));
    let allowed = "&redisson_lock__channel:{allowed:*";
    server.command(&["ACL", "SETUSER", "shop", "resetchannels", allowed]);
    for number in 0..15 {
        let error = backend.subscribe(id, name(&format!("forbidden:{number}"))).await.unwrap_err();
        assert!(
            matches!(error.kind(), BackendErrorKind::Denied | BackendErrorKind::Unavailable),
            "{error:?}"
        );
    }
    let may = name("allowed:1");
    until("an allowed channel is still acknowledged", async || {
        backend.subscribe(id, may.clone()).await.is_ok() && server.subscriptions() == 1
    })
    .await;
    server.command(&["PUBLISH", "redisson_lock__channel:{allowed:1}", "0"]);
    until("the message arrives", async || listener.heard.load(Ordering::SeqCst) == 1).await;
}

/// Both names share one channel. Each is woken, and neither ends the other's subscription.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn name_and_the_same_in_braces_are_woken_separately() {
    let server = RedisServer::start();
    let wake_ups = WakeUps::default();
    let (holder, waiter) = (factory(&server.url(), LEASE).await, wake_ups.of(&server.url(), LEASE).await);
    let (one, two) = (
        holder.named("a").unwrap().acquire().await.unwrap(),
        holder.named("{a}").unwrap().acquire().await.unwrap(),
    );
    let first = tokio::spawn(waiter.named("a").unwrap().acquire());
    until("the first waiter is subscribed", async || server.subscriptions() == 1).await;
    let second = tokio::spawn(waiter.named("{a}").unwrap().acquire());
    tokio::time::sleep(Duration::from_millis(300)).await;
    for (guard, waiting, lock) in [(two, second, "{a}"), (one, first, "a")] {
        let before = wake_ups.count(lock, WakeSource::Push);
        guard.release().await.unwrap();
        answered("the waiter", waiting).await.unwrap().unwrap().release().await.unwrap();
        until("a message wakes the waiter", async || wake_ups.count(lock, WakeSource::Push) > before).await;
        // Longer than a subscription outlives its last waiter.
        tokio::time::sleep(Duration::from_millis(2_500)).await;
    }
    until("the subscription ends eventually", async || server.subscriptions() == 0).await;
}

/// A busy server also refuses to subscribe.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscriptions_return_after_a_reconnect_to_a_busy_server() {
    let server = RedisServer::builder().config("lua-time-limit", "100").start();
    let proxy = TcpProxy::start(server.address());
    let (holder, waiter) = (factory(&server.url(), LEASE).await, factory(&proxy.url(), LEASE).await);
    let held = holder.named("x").unwrap().acquire().await.unwrap();
    let waiting = tokio::spawn(waiter.named("x").unwrap().acquire());
    until("the waiter is subscribed", async || server.subscriptions() == 1).await;
    let mut killer = server.raw();
    server.raw().send(&["EVAL", "while true do end", "0"]).unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    proxy.cut();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    // `SCRIPT KILL` is answered before it takes effect.
    killer.command(&["SCRIPT", "KILL"]);
    while killer.command(&["PING"]).is_error() {}
    until("the waiter is subscribed again", async || server.subscriptions() == 1).await;
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn factory_that_ends_with_its_runtime_leaves_no_subscription() {
    let server = RedisServer::start();
    let shared = redis(&server.url()).await;
    let _held = factory(&server.url(), LEASE).await.named("x").unwrap().acquire().await.unwrap();
    let (stands, told) = tokio::sync::oneshot::channel::<()>();
    let waiter = {
        let shared = shared.clone();
        std::thread::spawn(move || {
            let short_lived = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            short_lived.block_on(async move {
                tokio::spawn(LockFactory::new(shared).named("x").unwrap().acquire());
                told.await.unwrap();
            });
        })
    };
    until("the waiter is subscribed", async || server.subscriptions() == 1).await;
    stands.send(()).unwrap();
    waiter.join().unwrap();
    until("no subscription is left", async || server.subscriptions() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn subscription_is_not_undone_by_another_factory() {
    let server = RedisServer::start();
    let backend = Arc::new(redis(&server.url()).await);
    let (first, second) = (Arc::new(Listener::default()), Arc::new(Listener::default()));
    let weak = |heard: &Arc<Listener>| -> Weak<dyn WakeListener> {
        let heard: Arc<dyn WakeListener> = heard.clone();
        Arc::downgrade(&heard)
    };
    let (a, b) = (backend.register_listener(weak(&first)), backend.register_listener(weak(&second)));
    let channel = "redisson_lock__channel:{x}";
    let mut raw = server.raw();
    let begun = Instant::now();
    let mut rounds = 0;
    while begun.elapsed() < Duration::from_secs(if long() { 60 } else { 5 }) {
        rounds += 1;
        backend.subscribe(a, name("x")).await.unwrap();
        let together = Arc::new(Barrier::new(2));
        let leaving = {
            let (backend, together) = (backend.clone(), together.clone());
            let runtime = tokio::runtime::Handle::current();
            std::thread::spawn(move || {
                together.wait();
                runtime.block_on(backend.unsubscribe(a, name("x"))).unwrap();
            })
        };
        together.wait();
        for _ in 0..(rounds % 64) * 20 {
            std::hint::spin_loop();
        }
        // An error is acceptable as well: the caller then knows that there is no subscription, and asks again.
        let stands = backend.subscribe(b, name("x")).await;
        leaving.join().unwrap();
        if stands.is_ok() {
            // Leave time for an unsubscription.
            tokio::time::sleep(Duration::from_millis(2)).await;
            let before = second.heard.load(Ordering::SeqCst);
            raw.command(&["PUBLISH", channel, "0"]);
            let published = Instant::now();
            while second.heard.load(Ordering::SeqCst) == before {
                assert!(
                    published.elapsed() < HANGS,
                    "round {rounds}: acknowledged and not ended, but a release is missed"
                );
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
        }
        backend.unsubscribe(b, name("x")).await.unwrap();
    }
}
