//! The output of every public type, in a process whose password is the canary, and a check that no type is missing.

use super::{CANARY, is_silent};
use crate::client::{
    Address, ConnectWarning, LIBRARY, Library, Redis, RedisBackend, RedisBackendBuilder, SOURCE, of_own,
};
use lock_core::backend::{
    AcquireMode, AcquireRequest, Acquired, Capabilities, ForceReleaseRequest, ForceReleased, Inspected,
    MissedWakes, NodeVote, NotifyWaiters, Operation, Outcome, PermitRequest, Place, ReleaseRequest, Released,
    RenewRequest, Renewed, Reply, Share, StoredHold, StoredPermit, StoredPool, Submission, SubscriberId,
    SubscriptionRegistry, VoteKind, Votes,
};
use lock_core::{
    Connectors, FencingToken, HoldEnd, Limits, LockErrorKind, LockFactory, LockName, LockOptions, LostReason,
    MemoryBackend, ReleaseOutcome, Retention, RunError, Store, Worker,
    backend::{Applied, BackendErrorKind, LeaseId, LeaseNumber, ProcessId},
    clock::{BootClock, Moment, SteadyClock, TestClock, UtcTime},
    inspect::{ForceReleaseOutcome, ListLimits, Listing, ProcessCard},
    names::LockNames,
    observer::{
        AcquireOutcome, GrantSource, LockEvent, LockObserver, ReleaseKind, RenewalOutcome, TermEnd,
        WakeSource,
    },
};
use lock_quorum::{
    Extended, Extension, Freed, Healed, Healing, Member, NodeReply, Proposal, QuorumBackend, Vote,
};
use lock_redis::{
    Tls, Topology,
    client::{CallError, Client, ClientCertificate, DialError, DialErrorKind, PubSub, TlsSupport},
};
use lock_testkit::RedisServer;
use std::{
    collections::BTreeSet,
    error::Error,
    fmt::Debug,
    sync::{Arc, Mutex},
    time::Duration,
};

/// Exported items that are not printable types: traits, constants, and names of other types.
const TRAITS_AND_CONSTANTS: [&str; 18] = [
    "Backend",
    "AsyncBackend",
    "BackendExt",
    "Directory",
    "Clock",
    "Configured",
    "Connector",
    "LockObserver",
    "WakeListener",
    "Subscriptions",
    "QuorumNode",
    "NameParts",
    "LockKey",
    "SCHEMES",
    "MAX_BYTES",
    "MAX_CLOCK_DISTANCE",
    "MIN_COUNTER_RETENTION",
    "Floor", // an `Option` of a type in this list
];

/// Types that these tests cannot create: `OtelObserver` needs a feature that they do not enable, and the others are
/// created inside their crates. None of them contains a login.
const ELSEWHERE: [&str; 3] = ["OtelObserver", "Command", "Events"];

#[derive(Debug, Default)]
struct Shown(BTreeSet<&'static str>);

impl Shown {
    fn see(&mut self, name: &'static str, value: &(impl Debug + ?Sized)) {
        is_silent(name, &format!("{value:?} {value:#?}"));
        self.0.insert(name);
    }

    /// Checks an error and all its causes.
    fn hear(&mut self, name: &'static str, error: &(dyn Error + 'static)) {
        self.see(name, error);
        let mut next = Some(error);
        while let Some(cause) = next {
            is_silent(name, &format!("{cause} {cause:#} {cause:?} {cause:#?}"));
            next = cause.source();
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Watches(Arc<Mutex<Vec<String>>>);

impl LockObserver for Watches {
    fn on_event(&self, event: &LockEvent<'_>) {
        self.0.lock().unwrap().push(format!("{event:?} {event:#?}"));
    }
}

#[tokio::test]
async fn no_public_type_prints_a_password() {
    let mut shown = Shown::default();
    let server = RedisServer::builder().user(&format!("shop on >{CANARY} ~* &* +@all")).start();
    let url = format!("redis://shop:{CANARY}@127.0.0.1:{}", server.port());
    let watches = Watches::default();

    let builder = RedisBackendBuilder::from_url(&url).unwrap();
    shown.see("RedisBackendBuilder", &builder);
    let backend = builder.connect().await.unwrap();
    shown.see("RedisBackend", &backend);
    shown.see("ConnectWarning", &ConnectWarning::NotChecked { reason: String::new() });
    shown.see("Redis", &Redis);
    shown.see("Connectors", &Connectors::default().with(Redis));

    quorum(&mut shown, &backend);
    let store = Store::from(backend);
    shown.see("Store", &store);
    let builder = LockFactory::builder(store).observer(watches.clone());
    shown.see("LockFactoryBuilder", &builder);
    let locks = builder.build().unwrap();
    shown.see("LockFactory", &locks);
    shown.see("ProcessId", &locks.process_id());
    let lock = locks.named("x").unwrap();
    shown.see("Lock", &lock);
    shown.see("AcquireFuture", &lock.acquire());
    shown.see("TryAcquireFuture", &lock.try_acquire());
    let guard = lock.acquire().await.unwrap();
    shown.see("AcquireFuture", &guard.reenter());
    shown.see("LockGuard", &guard);
    shown.see("Hold", &guard.hold());
    shown.see("Owner", guard.owner());
    shown.see("FencingToken", &guard.fencing_token());
    shown.see("LockName", guard.name());
    shown.see("LockNames", &LockNames::from(guard.name().clone()));
    let inspection = locks.inspect("x").await.unwrap();
    shown.see("Inspection", &inspection);
    shown.see("LocalHold", &inspection.local.unwrap());
    shown.see("Health", &locks.health().await);
    shown.see("Listing", &Listing::default());
    let outcome = guard.release().await.unwrap();
    shown.see("ReleaseOutcome", &outcome);
    let set = locks.all(["x", "y"]).unwrap();
    shown.see("LockSet", &set);
    shown.see("LockSetGuard", &set.acquire().await.unwrap());
    shown.see("Election", &locks.election("leader").unwrap());
    shown.see("ShutdownReport", &locks.shutdown().await);
    let events = watches.0.lock().unwrap().clone();
    assert!(!events.is_empty());
    for shows in ["LockEvent", "LockEventKind"] {
        shown.see(shows, &events);
    }

    errors(&mut shown, &server, &url).await;
    seam(&mut shown, &url);
    plain(&mut shown, &locks);
    wire(&mut shown, &locks);
    let public = public_types();
    let forgotten: Vec<_> = public.iter().filter(|name| !shown.0.contains(name.as_str())).collect();
    assert!(forgotten.is_empty(), "public types that are not checked here: {forgotten:?}");
    eprintln!("{} public types, none prints the password", public.len());
}

/// Checks errors of wrong passwords, invalid URLs and unreachable servers.
async fn errors(shown: &mut Shown, server: &RedisServer, url: &str) {
    let port = server.port();
    for bad in [
        format!("redis://shop:{CANARY}-wrong@127.0.0.1:{port}"),
        format!("redis://:{CANARY}@127.0.0.1:1"),
        format!("redis://:{CANARY}@nowhere.invalid:{port}"),
        format!("{url}/{CANARY}"),
        format!("{url}?pass={CANARY}"),
        format!("redis://{CANARY}@127.0.0.1:{port}"),
        format!("redis-cluster://:{CANARY}@127.0.0.1:{port}"),
        format!("redlock://:{CANARY}@127.0.0.1:{port},127.0.0.1:1,127.0.0.1:2"),
        format!("{CANARY}:{CANARY}@127.0.0.1:{port}"),
        CANARY.to_owned(),
    ] {
        for error in [
            RedisBackend::connect(&bad).await.map(drop).expect_err("invalid URL"),
            Connectors::default().with(Redis).connect(&bad).await.map(drop).expect_err("invalid URL"),
        ] {
            if let Some(cause) = error.backend_error() {
                shown.hear("BackendError", cause);
            }
            shown.hear("LockError", &error);
            shown.hear("RunError", &RunError::NotAcquired(error));
        }
    }
    let locks = LockFactory::new(RedisBackend::connect(url).await.unwrap());
    server.stop();
    let down = locks.named("x").unwrap().try_acquire().await.map(drop).expect_err("the server is down");
    shown.hear("LockError", &down);
}

/// Checks the types at the interface to a client.
fn seam(shown: &mut Shown, url: &str) {
    let address = Address::parse(url).unwrap();
    shown.see("Address", &address);
    let Topology::Standalone(endpoint) = &address.topology else { panic!("one server") };
    shown.see("Endpoint", endpoint);
    shown.see("Server", &endpoint.server);
    let sentinels = format!("redis-sentinel://:{CANARY}@a,b/main?sentinel_pass={CANARY}");
    let sentinels = Address::parse(&sentinels).unwrap();
    shown.see("Address", &sentinels);
    shown.see("Topology", &sentinels.topology);
    if let Topology::Sentinel(address) = &sentinels.topology {
        shown.see("SentinelAddress", address);
    }
    let quorum = Address::parse(&format!("redlock://:{CANARY}@a,b,c")).unwrap();
    shown.see("Address", &quorum);
    if let Topology::Quorum(address) = &quorum.topology {
        shown.see("QuorumAddress", address);
    }
    shown.see("PubSub", &PubSub::Sharded);
    shown.see("Credentials", &address.credentials);
    let (certificate, key) = (CANARY.into(), CANARY.into());
    shown.see("ClientCertificate", &ClientCertificate { certificate, key });
    shown.see("Tls", &Tls::authority(CANARY).client_certificate(CANARY, CANARY));
    shown.see("TlsSupport", &<Library as Client>::TLS);
    shown.see("TlsSupport", &TlsSupport::<Library>::Missing("a feature"));
    shown.see("RedisBackendBuilder", &of_own(url));
    shown.see(LIBRARY, &Library::default());
    let text = || CANARY.to_owned();
    for error in [
        CallError::NotSent(text()),
        CallError::Refused(text()),
        CallError::Lost(text()),
        CallError::Unreadable(text()),
    ] {
        shown.see("CallError", &error);
    }
    shown.see("DialError", &DialError::new(DialErrorKind::Refused, CANARY));
    shown.see("DialErrorKind", &DialErrorKind::Refused);
}

/// Checks a quorum of this store, and the requests and replies of its nodes.
fn quorum(shown: &mut Shown, backend: &RedisBackend) {
    let members = ["a", "b", "c"].map(|name| Member::new(name, backend.clone()));
    shown.see("Member", &members[0]);
    let builder = QuorumBackend::builder(members);
    shown.see("QuorumBuilder", &builder);
    shown.see("QuorumBackend", &builder.build().unwrap());
    let name = || LockName::new("x").unwrap();
    let lease = LeaseId::new(ProcessId::random(), LeaseNumber::new(1));
    let (duration, not_after, token) =
        (Duration::from_secs(1), UtcTime::from_micros(1), FencingToken::new(1));
    let (last, retention) = (token, Retention::Backend);
    let min_age = Duration::ZERO;
    let proposal =
        Proposal { name: name(), lease, duration, not_after, token, last, floor: None, min_age, retention };
    shown.see("Proposal", &proposal);
    shown.see("Extension", &Extension { name: name(), lease, duration, not_after, depth: None });
    let healing = Healing { name: name(), lease, duration, not_after, depth: 1, last, retention };
    shown.see("Healing", &healing);
    shown.see("NodeReply", &NodeReply { now: not_after, age: min_age, outcome: Vote::Granted });
    shown.see("Vote", &Vote::Granted);
    shown.see("Extended", &Extended::Gone);
    shown.see("Healed", &Healed::Set);
    shown.see("Freed", &Freed { now: None, outcome: Released::Kept });
}

/// Checks types that are unrelated to connections, for completeness.
fn plain(shown: &mut Shown, locks: &LockFactory) {
    shown.hear("NameError", &LockName::new("").unwrap_err());
    shown.hear("OptionsError", &LockOptions::new().lease(Duration::ZERO).check().unwrap_err());
    shown.see("LeaseNumber", &LeaseNumber::new(1));
    shown.see("LeaseId", &LeaseId::new(locks.process_id(), LeaseNumber::new(1)));
    shown.see("Worker", &Worker::on(tokio::runtime::Handle::current()));
    shown.see("Limits", &Limits::new());
    shown.see("LockOptions", &LockOptions::new());
    shown.see("MemoryBackend", &MemoryBackend::new());
    shown.see("BootClock", &BootClock::new());
    shown.see("SteadyClock", &SteadyClock::new());
    shown.see("ServerClock", &lock_core::__private::ServerClock::default());
    shown.see("TestClock", &TestClock::new());
    shown.see("Moment", &Moment::START);
    shown.see("UtcTime", &UtcTime::from_micros(1));
    shown.see("ForceReleaseOutcome", &ForceReleaseOutcome::NotHeld);
    shown.see("ListLimits", &ListLimits::new());
    shown.see("ProcessCard", &ProcessCard::new("host", 1, "program", UtcTime::from_micros(1)));
    shown.see("Applied", &Applied::Unknown);
    shown.see("BackendErrorKind", &BackendErrorKind::Denied);
    shown.see("LockErrorKind", &LockErrorKind::Backend);
    shown.see("HoldEnd", &HoldEnd::Lost(LostReason::Gone));
    shown.see("LostReason", &LostReason::Gone);
    shown.see("ReleaseOutcome", &ReleaseOutcome::Released);
    shown.see("AcquireOutcome", &AcquireOutcome::Acquired);
    shown.see("ReleaseKind", &ReleaseKind::Dropped);
    shown.see("TermEnd", &TermEnd::Resigned);
    shown.see("GrantSource", &GrantSource::Store);
    shown.see("RenewalOutcome", &RenewalOutcome::Renewed);
    shown.see("WakeSource", &WakeSource::Push);
}

/// Checks the requests and replies of a backend.
fn wire(shown: &mut Shown, locks: &LockFactory) {
    let name = || LockName::new("x").unwrap();
    let lease = LeaseId::new(locks.process_id(), LeaseNumber::new(1));
    let (duration, not_after) = (Duration::from_secs(1), UtcTime::from_micros(1));
    let mode = AcquireMode::Reenter { depth: 1 };
    let stored = StoredHold { lease: lease.to_string(), depth: 1, remaining: None };
    shown.see("AcquireMode", &mode);
    let acquire =
        AcquireRequest { name: name(), lease, duration, not_after, mode, retention: Retention::Backend };
    shown.see("AcquireRequest", &acquire);
    let renew = RenewRequest { name: name(), lease, duration, not_after };
    shown.see("RenewRequest", &renew);
    shown.see("NotifyWaiters", &NotifyWaiters::Yes);
    let release = ReleaseRequest { name: name(), lease, depth_left: 0, notify: NotifyWaiters::Yes };
    shown.see("ReleaseRequest", &release);
    for operation in [Operation::Acquire(acquire), Operation::Renew(renew), Operation::Release(release)] {
        shown.see("Operation", &operation);
        let (submission, answer) = Submission::channel(operation);
        shown.see("Submission", &submission);
        is_silent("the reply", &format!("{answer:?}"));
    }
    shown.see("Outcome", &Outcome::Renewed(Renewed::Gone));
    shown.see("ForceReleaseRequest", &ForceReleaseRequest { name: name(), seen: lease.to_string() });
    let (share, place) = (Share { weight: 1, limit: 1 }, Place { id: lease, patience: duration });
    shown.see("Share", &share);
    shown.see("Place", &place);
    shown.see("PermitRequest", &PermitRequest { share, place: Some(place), floor: None });
    let permit = StoredPermit { lease: lease.to_string(), weight: 1, remaining: duration };
    shown.see("StoredPermit", &permit);
    shown.see("StoredPool", &StoredPool { holders: vec![permit], waiters: Vec::new() });
    shown.see("StoredHold", &stored);
    shown.see("Inspected", &Inspected::Held(stored));
    shown.see("Reply", &Reply::new(not_after, Renewed::Renewed));
    shown.see("Acquired", &Acquired::Gone);
    shown.see("Renewed", &Renewed::Gone);
    shown.see("Released", &Released::Kept);
    shown.see("ForceReleased", &ForceReleased::Released);
    shown.see("NodeVote", &NodeVote::new("node", VoteKind::Granted));
    shown.see("VoteKind", &VoteKind::Busy);
    shown.see("Votes", &Votes::none());
    shown.see("SubscriberId", &SubscriberId::new(1));
    shown.see("MissedWakes", &MissedWakes::Lagged);
    shown.see("SubscriptionRegistry", &SubscriptionRegistry::default());
    shown.see("Capabilities", &Capabilities::new("redis"));
    shown.see("Retention", &Retention::Forever);
}

/// Returns the exported names, from the `pub use` lines of the crates' root files.
fn public_types() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for source in [
        include_str!("../../../../crates/lock-core/src/lib.rs"),
        include_str!("../../../../crates/lock-core/src/backend/mod.rs"),
        include_str!("../../../../crates/lock-core/src/clock.rs"),
        include_str!("../../../../crates/lock-core/src/inspect/mod.rs"),
        include_str!("../../../../crates/lock-core/src/observer/mod.rs"),
        include_str!("../../../../crates/lock-quorum/src/lib.rs"),
        include_str!("../../../../crates/lock-redis/src/lib.rs"),
        include_str!("../../../../crates/lock-redis/src/client/mod.rs"),
        SOURCE,
    ] {
        // Stops at the modules that no promise of stability covers.
        let promised = source.split("Not covered by any promise").next().unwrap();
        let exports = promised.split(';').filter_map(|statement| statement.split("pub use ").nth(1));
        let words = exports.flat_map(|export| export.split(|c: char| !(c.is_alphanumeric() || c == '_')));
        names.extend(words.map(str::to_owned));
        for kind in ["pub struct ", "pub enum "] {
            let defined = promised.lines().filter_map(|line| line.strip_prefix(kind));
            let name = |line: &str| line.split(|c: char| !c.is_alphanumeric()).next().unwrap().to_owned();
            names.extend(defined.map(name));
        }
    }
    let types = |name: &String| name.starts_with(char::is_uppercase);
    let apart = |name: &String| [&TRAITS_AND_CONSTANTS[..], &ELSEWHERE].concat().contains(&name.as_str());
    let names: BTreeSet<_> = names.into_iter().filter(|n| types(n) && !apart(n)).collect();
    assert!(names.len() > 60 && names.contains("LockGuard") && names.contains("RedisBackend"), "{names:?}");
    names
}
