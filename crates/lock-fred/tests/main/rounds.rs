//! Subscriptions: acknowledged when they stand, made again when they do not, each for itself.

use crate::support::{factory, name, redis, until};
use lock_core::{
    LockName,
    backend::{Backend, BackendErrorKind, Signals, WakeReason},
};
use lock_testkit::{RedisServer, TcpProxy};
use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

const LEASE: Duration = Duration::from_secs(30);

/// Counts its wake-ups; may panic at them.
#[derive(Debug, Default)]
struct Listener {
    heard: AtomicUsize,
    panics: bool,
}

impl Signals for Listener {
    fn freed(&self, _: &LockName) {
        assert!(!self.panics, "this listener panics");
        self.heard.fetch_add(1, Ordering::SeqCst);
    }
    fn all(&self, _: WakeReason) {}
    fn node_restarted(&self) {}
}

fn weak(listener: &Arc<Listener>) -> Weak<dyn Signals> {
    let listener: Arc<dyn Signals> = listener.clone();
    Arc::downgrade(&listener)
}

/// The client library keeps no account of the answers to SUBSCRIBE.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_subscription_is_never_said_to_be_acknowledged() {
    let server = RedisServer::builder().user("shop on >secret ~* &* +@all").start();
    let backend = redis(&format!("redis://shop:secret@127.0.0.1:{}", server.port())).await;
    let listener = Arc::new(Listener::default());
    let id = backend.attach(weak(&listener));
    let allowed = "&redisson_lock__channel:{allowed:*";
    server.command(&["ACL", "SETUSER", "shop", "resetchannels", allowed]);
    for number in 0..15 {
        let error = backend.watch(id, name(&format!("forbidden:{number}"))).await.unwrap_err();
        assert!(
            matches!(error.kind(), BackendErrorKind::Denied | BackendErrorKind::Unavailable),
            "{error:?}"
        );
    }
    let may = name("allowed:1");
    until("what is allowed is acknowledged all the same", async || {
        backend.watch(id, may.clone()).await.is_ok() && server.subscriptions() == 1
    })
    .await;
    server.command(&["PUBLISH", "redisson_lock__channel:{allowed:1}", "0"]);
    until("and heard", async || listener.heard.load(Ordering::SeqCst) == 1).await;
}

/// Both names have one channel; each is woken, and neither takes it from the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_and_the_same_in_braces_wake_each_for_itself() {
    let server = RedisServer::start();
    let (holder, waiter) = (factory(&server.url(), LEASE).await, factory(&server.url(), LEASE).await);
    let (one, two) = (
        holder.named("a").unwrap().acquire().await.unwrap(),
        holder.named("{a}").unwrap().acquire().await.unwrap(),
    );
    let first = tokio::spawn(waiter.named("a").unwrap().acquire());
    until("the first waits", async || server.subscriptions() == 1).await;
    let second = tokio::spawn(waiter.named("{a}").unwrap().acquire());
    tokio::time::sleep(Duration::from_millis(300)).await;
    for (guard, waiting) in [(two, second), (one, first)] {
        let released = Instant::now();
        guard.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
        assert!(released.elapsed() < Duration::from_secs(2), "{:?}", released.elapsed());
        // Longer than a subscription outlives its last waiter.
        tokio::time::sleep(Duration::from_millis(2_500)).await;
    }
    until("it is given up in the end", async || server.subscriptions() == 0).await;
}

/// A server that is busy refuses to subscribe as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscriptions_come_back_when_the_server_was_busy_at_the_reconnection() {
    let server = RedisServer::builder().config("lua-time-limit", "100").start();
    let proxy = TcpProxy::start(server.address());
    let (holder, waiter) = (factory(&server.url(), LEASE).await, factory(&proxy.url(), LEASE).await);
    let held = holder.named("x").unwrap().acquire().await.unwrap();
    let waiting = tokio::spawn(waiter.named("x").unwrap().acquire());
    until("it waits for messages", async || server.subscriptions() == 1).await;
    let mut killer = server.raw();
    server.raw().send(&["EVAL", "while true do end", "0"]).unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    proxy.cut();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    // It takes effect at the next look of the script, and is answered before.
    killer.command(&["SCRIPT", "KILL"]);
    while killer.command(&["PING"]).is_error() {}
    until("it waits for messages again", async || server.subscriptions() == 1).await;
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_panics_silences_no_other() {
    let server = RedisServer::start();
    let backend = redis(&server.url()).await;
    let (bad, good) =
        (Arc::new(Listener { panics: true, ..Listener::default() }), Arc::new(Listener::default()));
    let (bad_id, good_id) = (backend.attach(weak(&bad)), backend.attach(weak(&good)));
    backend.watch(bad_id, name("a")).await.unwrap();
    backend.watch(good_id, name("b")).await.unwrap();
    server.command(&["PUBLISH", "redisson_lock__channel:{a}", "0"]);
    server.command(&["PUBLISH", "redisson_lock__channel:{b}", "0"]);
    until("the other hears", async || good.heard.load(Ordering::SeqCst) == 1).await;
}
