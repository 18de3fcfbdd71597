//! Clients of ZooKeeper that lose their connection, and nodes that the servers delete meanwhile.

use super::{
    requests::first_with,
    support::{Keys, Tested, connect},
};
use lock_core::{FencingToken, LockFactory, LockName, LockOptions, MemoryBackend};
use lock_testkit::{
    TcpProxy, ZooKeeper, ZooKeeperEnsemble,
    contender::{Contender, LONG, held},
};
use std::{
    env,
    net::SocketAddr,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::block_in_place,
    time::{sleep, timeout},
};

const PATIENCE: Duration = Duration::from_secs(60);

/// Longer than the servers leave an empty container.
const SWEPT: Duration = Duration::from_millis(1_500);

fn x() -> LockName {
    LockName::new("x").unwrap()
}

/// A lock is released by force, and its node deleted and created again. The old holder notices at its next renewal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewal_does_not_take_a_new_node_for_its_own() {
    let keys = Keys::<ZooKeeper>::new();
    let (locks, others) = (keys.through(Keys::<ZooKeeper>::server(), 10).await, keys.locks().await);
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    others.force_release(&x()).await.unwrap();
    sleep(SWEPT).await;
    let newer = others.named("x").unwrap().acquire_timeout(PATIENCE).await.unwrap();
    timeout(PATIENCE, guard.lost()).await.expect("it notices");
    assert!(!guard.release().await.unwrap().was_held());
    assert!(newer.is_held() && held(&keys.store().await.backend, &x()).await.is_some());
}

/// A release is executed, but its reply is lost. Before it is repeated, the node is deleted, and another process has the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_release_leaves_a_new_node_alone() {
    let keys = Keys::<ZooKeeper>::new();
    let proxy = TcpProxy::start(Keys::<ZooKeeper>::server());
    let (locks, others) = (keys.through(proxy.address(), 40).await, keys.locks().await);
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    proxy.lose_replies(first_with(&[b"/lock/x", b"/owner"]));
    let releasing = tokio::spawn(guard.release());
    while proxy.lost() == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    block_in_place(|| proxy.refuse());
    sleep(SWEPT).await;
    let newer = others.named("x").unwrap().acquire_timeout(PATIENCE).await.unwrap();
    proxy.pass();
    drop(timeout(PATIENCE, releasing).await);
    sleep(Duration::from_secs(3)).await;
    assert!(newer.is_held() && held(&keys.store().await.backend, &x()).await.is_some(), "it was freed");
}

/// An outage is over. The client is back soon after it, however long it was, so a hold survives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_is_back_soon_after_an_outage() {
    let keys = Keys::<ZooKeeper>::new();
    let proxy = TcpProxy::start(Keys::<ZooKeeper>::server());
    let locks = keys.through(proxy.address(), 40).await;
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    block_in_place(|| proxy.refuse());
    sleep(Duration::from_secs(14)).await;
    assert!(guard.is_held());
    proxy.pass();
    let (begun, patient) = (Instant::now(), LockOptions::default().outage_budget(PATIENCE * 10));
    let lock = locks.named("y").unwrap().with_options(patient).unwrap();
    let other = lock.acquire_timeout(PATIENCE).await.unwrap();
    println!("usable {:.1?} after an outage of 14 s", begun.elapsed());
    assert!(guard.is_held());
    other.release().await.unwrap();
    assert!(guard.release().await.unwrap().was_held());
}

/// The holder leaves a re-entry, and releases before the waiter, which is far away, has its next watch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_between_two_watches_wakes() {
    let keys = Keys::<ZooKeeper>::new();
    let proxy = TcpProxy::start(Keys::<ZooKeeper>::server());
    let (locks, theirs) = (keys.through(proxy.address(), 40).await, keys.store().await.backend);
    let holder = Contender::new(&theirs);
    holder.take(&x(), LONG).await;
    holder.keep(&x(), 2, LONG).await;
    let options = LockOptions::default().poll_interval(PATIENCE * 10);
    let lock = locks.named("x").unwrap().with_options(options).unwrap();
    let waiting = tokio::spawn(lock.acquire_timeout(PATIENCE * 10));
    sleep(Duration::from_secs(1)).await;
    proxy.delay(Duration::from_millis(50));
    holder.release(&x(), 1).await;
    holder.free(&x()).await;
    let woken = timeout(PATIENCE, waiting).await.expect("it is woken").unwrap().unwrap();
    woken.release().await.unwrap();
}

/// A floor that the next token exceeds anyway uses up no tokens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floors_that_are_exceeded_change_nothing() {
    let keys = Keys::<ZooKeeper>::new();
    let mut last = FencingToken::new(0);
    for _ in 0..3 {
        let locks = keys.locks().await;
        let options = LockOptions::default().token_floor(last);
        let guard = locks.named("x").unwrap().with_options(options).unwrap().acquire().await.unwrap();
        assert!(guard.fencing_token() > last);
        assert_eq!(guard.fencing_token().get() % 16, 0, "the offset was raised");
        last = guard.fencing_token();
        guard.release().await.unwrap();
        locks.shutdown().await;
    }
}

/// Stores that end close their sessions, unless a lock is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_stores_leave_no_session() {
    let ensemble = block_in_place(|| ZooKeeperEnsemble::start(1));
    let url = ZooKeeper::url(&ensemble.address(0).to_string(), "shop", 60);
    for _ in 0..5 {
        let locks = connect::<ZooKeeper>(&url).await;
        locks.named("x").unwrap().acquire().await.unwrap().release().await.unwrap();
        locks.shutdown().await;
    }
    let sessions = || {
        let answer = ensemble.ask(0, "mntr").expect("it answers");
        let line = answer.lines().find(|line| line.starts_with("zk_global_sessions")).expect("it is told");
        line.split_whitespace().last().and_then(|number| number.parse::<u32>().ok()).expect("a number")
    };
    let begun = Instant::now();
    while block_in_place(sessions) > 0 {
        // They would end by themselves after 60 s.
        assert!(begun.elapsed() < Duration::from_secs(45), "sessions are left");
        sleep(Duration::from_millis(100)).await;
    }
}

/// There is no route to the server for longer than its session, so that attempts to connect fail without waiting. Locks in other
/// stores, which share the thread of the keeper, are renewed. In a network of its own, for which the test is started again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_route_disturbs_no_other_store() {
    const INSIDE: &str = "LOCK_IN_A_NETWORK";
    if env::var_os(INSIDE).is_none() {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--net", "--"]).arg(env::current_exe().unwrap()).env(INSIDE, "1");
        command.args(["--exact", "reconnections::missing_route_disturbs_no_other_store", "--nocapture"]);
        let done = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let text = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
        assert!(
            done.status.success() && text.contains("1 passed"),
            "it needs `unshare` with user namespaces: {text}"
        );
        return;
    }
    let ip = |arguments: &str| {
        assert!(Command::new("ip").args(arguments.split(' ')).status().expect("install iproute2").success());
    };
    ip("link set lo up");
    ip("addr add 10.77.0.1/32 dev lo");
    let server = block_in_place(|| ZooKeeperEnsemble::start(1));
    let listener = TcpListener::bind("10.77.0.1:0").await.unwrap();
    let (address, to) = (listener.local_addr().unwrap(), server.address(0));
    let forwarding = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut server = TcpStream::connect(to).await.unwrap();
        drop(tokio::io::copy_bidirectional(&mut client, &mut server).await);
    });
    let url = ZooKeeper::url(&address.to_string(), "shop", 8);
    let locks = connect::<ZooKeeper>(&url).await;
    locks.named("x").unwrap().acquire().await.unwrap().release().await.unwrap();
    let elsewhere = LockFactory::new(MemoryBackend::new());
    let options = LockOptions::default().lease(Duration::from_secs(5));
    let guard = elsewhere.named("y").unwrap().with_options(options).unwrap().acquire().await.unwrap();
    forwarding.abort();
    ip("addr del 10.77.0.1/32 dev lo");
    sleep(Duration::from_secs(14)).await;
    assert!(guard.is_held());
}

/// A proxy that lowers the length of the session in each answer to a connection while it is told to. Returns its address, and
/// what cuts its connections.
async fn granting_less(to: SocketAddr, is_less: Arc<AtomicBool>) -> (SocketAddr, Arc<Notify>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, cuts) = (listener.local_addr().unwrap(), Arc::new(Notify::new()));
    let cut = cuts.clone();
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let (is_less, cut) = (is_less.clone(), cut.clone());
            tokio::spawn(async move {
                let mut server = TcpStream::connect(to).await.unwrap();
                let ((mut asks, mut hears), (mut answers, mut is_asked)) = (client.split(), server.split());
                let back = async {
                    // The length of the message, and the version of the protocol; then that of the session.
                    let mut head = [0; 12];
                    answers.read_exact(&mut head).await?;
                    if is_less.load(Ordering::SeqCst) {
                        head[8..].copy_from_slice(&4_000_i32.to_be_bytes());
                    }
                    hears.write_all(&head).await?;
                    tokio::io::copy(&mut answers, &mut hears).await
                };
                tokio::select! {
                    _ = tokio::io::copy(&mut asks, &mut is_asked) => {}
                    _ = back => {}
                    () = cut.notified() => {}
                }
            });
        }
    });
    (address, cuts)
}

/// For a while, the servers grant shorter sessions than before. The session is not closed, and continues afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shorter_sessions_of_a_server_close_none() {
    let (keys, is_less) = (Keys::<ZooKeeper>::new(), Arc::new(AtomicBool::new(false)));
    let (address, cuts) = granting_less(Keys::<ZooKeeper>::server(), is_less.clone()).await;
    let locks = keys.through(address, 40).await;
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    is_less.store(true, Ordering::SeqCst);
    cuts.notify_waiters();
    let theirs = keys.store().await.backend;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) {
        assert!(held(&theirs, &x()).await.is_some(), "the session was closed");
        sleep(Duration::from_millis(10)).await;
    }
    is_less.store(false, Ordering::SeqCst);
    assert!(guard.is_held() && guard.release().await.unwrap().was_held());
}

/// A forced release is late: the holder that was seen has released, its node was deleted, and another process has the lock by a
/// grant with the same version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_forced_release_leaves_another_holder_alone() {
    let keys = Keys::<ZooKeeper>::new();
    let proxy = TcpProxy::start(Keys::<ZooKeeper>::server());
    let forcing = keys.through(proxy.address(), 40).await;
    let theirs = keys.store().await.backend;
    let (a, b) = (Contender::new(&theirs), Contender::new(&theirs));
    a.take(&x(), LONG).await;
    let (grant, was_seen) = (format!("/lock/x/{}", a.lease()).into_bytes(), Arc::new(AtomicBool::new(false)));
    let seen = was_seen.clone();
    proxy.capture(move |bytes| {
        // Only its transaction names the node of the grant.
        if bytes.windows(grant.len()).any(|part| part == grant) && !seen.swap(true, Ordering::SeqCst) {
            std::thread::sleep(SWEPT);
        }
        false
    });
    let forced = tokio::spawn(async move { forcing.force_release(&x()).await });
    while !was_seen.load(Ordering::SeqCst) {
        sleep(Duration::from_millis(1)).await;
    }
    a.free(&x()).await;
    sleep(SWEPT * 2 / 3).await;
    b.take(&x(), LONG).await;
    drop(forced.await.unwrap());
    assert!(held(&theirs, &x()).await.is_some(), "it was freed");
}
