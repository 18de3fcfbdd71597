//! A quorum node restarts without its data while another process holds a lock there.

use super::{addresses, start, url};
use crate::{
    figure::{Figure, Run},
    stage::{Bench, HANGS, Referee, blocking, lock, on_a_runtime, store},
};
use lock_core::{
    LockFactory, LockGuard, LockOptions,
    backend::VoteKind,
    observer::{LockEvent, LockEventKind, LockObserver},
};
use lock_testkit::{RedisServer, TcpProxy};
use lock_trials::process::at_once;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

const LEASE: Duration = Duration::from_secs(4);
const MAX_LEASE: &str = "max_lease=5s";
/// The node that loses its data. The holder does not reach the nodes after it.
const FORGETFUL: usize = 2;

pub(crate) fn forgetful_nodes(run: &Run) -> Vec<Figure> {
    let (quorums, each) = run.times((5, 2), (10, 20));
    let referee = Referee::appears();
    let bench = referee.bench();
    at_once(quorums, move |quorum| on_a_runtime(forget(quorum, each, bench, MAX_LEASE)));
    let (heard, violations) = referee.judges();
    assert_eq!(violations, Vec::<String>::new());
    let times = quorums * each;
    assert!(heard >= times as u64, "the referee recorded the holds: {heard}");
    // The counter-test: the trial detects a second holder if there is one.
    let referee = Referee::appears();
    on_a_runtime(forget(0, 1, referee.bench(), "max_lease=5s&durable=true"));
    let (_, overlaps) = referee.judges();
    assert!(!overlaps.is_empty(), "nodes that are wrongly declared durable grant a second hold");
    vec![Figure::new(
        "a node of a quorum of 5 restarts empty during a hold that nodes 1 to 3 granted, while another process asks",
        times,
        "4 and 5 grant, 3 answers *quarantined*, no second holder; two holders if the nodes are declared durable",
        format!("0 overlaps; declared durable: {}", overlaps.len()),
    )]
}

async fn forget(quorum: usize, times: usize, bench: Bench, options: &str) {
    let servers = start();
    let beyond: Vec<_> =
        servers[FORGETFUL + 1..].iter().map(|server| TcpProxy::start(server.address())).collect();
    let seen_by_holder = addresses(&servers).take(FORGETFUL + 1).chain(beyond.iter().map(TcpProxy::address));
    let (holder, _) = client(&url(seen_by_holder, options)).await;
    let (other, SeenQuarantine(seen)) = client(&url(addresses(&servers), options)).await;
    let witness = bench.witness(LEASE / 20);
    // From now on all nodes count how long they have kept their data.
    let _ = lock(&other, "first").try_acquire().await;
    for number in 0..times {
        let name = format!("x:{quorum}:{number}");
        beyond.iter().for_each(TcpProxy::refuse);
        let guard = acquire(&holder, &name).await;
        let inside = witness.enters(guard.hold());
        blocking(&servers[FORGETFUL], RedisServer::restart_empty).await;
        let mut second = None;
        while second.is_none() && !seen.load(Ordering::SeqCst) && guard.is_held() {
            second = lock(&other, &name).try_acquire().await.ok().flatten();
        }
        assert!(
            second.is_some() || seen.load(Ordering::SeqCst),
            "nodes 4 and 5 granted the lock while it was held"
        );
        // The holder believes in its hold until it learns otherwise. The referee judges.
        if let Some(second) = second {
            drop(witness.enters(second.hold()));
            assert!(options.contains("durable"), "quarantined nodes grant nothing");
        }
        drop(inside);
        let _ = guard.release().await;
        beyond.iter().for_each(TcpProxy::pass);
        seen.store(false, Ordering::SeqCst);
    }
}

/// Acquires, waiting until young nodes vote.
async fn acquire(locks: &LockFactory, name: &str) -> LockGuard {
    let begin = Instant::now();
    loop {
        match lock(locks, name).acquire().await {
            Ok(guard) => return guard,
            Err(error) => assert!(begin.elapsed() < HANGS, "the nodes do not vote: {error:?}"),
        }
    }
}

async fn client(url: &str) -> (LockFactory, SeenQuarantine) {
    let (seen, options) = (SeenQuarantine::default(), LockOptions::new().lease(LEASE));
    let builder = LockFactory::builder(store(url).await).options(options).observer(seen.clone());
    (builder.build().unwrap(), seen)
}

/// Set once a round was seen in which nodes 4 and 5 granted the lock and node 3 did not vote.
#[derive(Debug, Clone, Default)]
struct SeenQuarantine(Arc<AtomicBool>);

impl LockObserver for SeenQuarantine {
    fn on_event(&self, event: &LockEvent<'_>) {
        let LockEventKind::Voted { votes, .. } = &event.kind else { return };
        let kinds: Vec<_> = votes.iter().map(|vote| &vote.kind).collect();
        if matches!(kinds[FORGETFUL..], [VoteKind::Quarantined { .. }, VoteKind::Granted, VoteKind::Granted])
        {
            self.0.store(true, Ordering::SeqCst);
        }
    }
}
