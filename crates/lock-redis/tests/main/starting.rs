//! Starts without a server, or without some of them, and what is known of the reason.

use crate::{
    scripted::{Answer, BEGIN, Dial, INFO, Scripted, refused, text},
    support::{Backed, Listener, acquire, connected, meaning, name},
};
use lock_core::{
    LockErrorKind,
    backend::{Applied, BackendErrorKind as Kind, Subscriptions as _},
};
use lock_redis::{
    ConnectWarning,
    client::{Credentials, DialErrorKind, Reply},
};
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use tokio::time::{Instant, sleep};

/// Longer than the longest pause between two dials.
const SOON: Duration = Duration::from_millis(1_100);
const NOBODY: Dial = Dial::Failed(DialErrorKind::NobodyListens, "Connection refused");

/// Starts without a server.
async fn started() -> (Scripted, Backed) {
    let client = Scripted::default();
    client.server().dial = NOBODY;
    let backend = client.builder().connect_lazy().expect("no server is needed");
    (client, backend)
}

/// Asserts that a request fails without being sent, for this reason.
async fn is_unavailable(backend: &Backed, reason: &str) {
    let answer = acquire(backend, "x").await;
    assert_eq!(meaning(&answer), (Kind::Unavailable, Applied::No));
    let error = answer.unwrap_err().to_string();
    assert!(error.contains("not connected (") && error.contains(reason), "missing {reason:?}: {error}");
    let error = backend.ping().await.unwrap_err();
    assert!(format!("{error:#}").contains(reason), "missing {reason:?}: {error:#}");
}

#[tokio::test(start_paused = true)]
async fn lazy_start_connects_when_a_server_answers() {
    let (client, backend) = started().await;
    let (listener, subscriber) = Listener::attached(&backend);
    is_unavailable(&backend, "Connection refused").await;
    assert!(!backend.is_connected() && backend.warnings().is_empty());
    let mut subscribing = std::pin::pin!(backend.subscribe(subscriber, name("x")));
    tokio::select! {
        _ = &mut subscribing => panic!("there is no server"),
        () = sleep(Duration::from_secs(60)) => {}
    }
    client.recover();
    subscribing.await.expect("it waited for the server");
    acquire(&backend, "x").await.unwrap();
    assert!(backend.is_connected());
    assert_eq!(client.publish("redisson_lock__channel:{x}"), 1);
    assert!(listener.take().contains(&"x".to_owned()));
    // Another subscriber, registered afterwards.
    let (later, subscriber) = Listener::attached(&backend);
    backend.subscribe(subscriber, name("y")).await.unwrap();
    client.publish("redisson_lock__channel:{y}");
    assert!(later.take().contains(&"y".to_owned()) && !listener.take().contains(&"y".to_owned()));
}

/// A program that starts before its server usually asks at once.
#[tokio::test(start_paused = true)]
async fn first_request_waits_for_the_first_connection() {
    let client = Scripted::default();
    let backend = client.builder().connect_lazy().unwrap();
    acquire(&backend, "x").await.expect("the server answers in time");
}

#[tokio::test(start_paused = true)]
async fn refusals_do_not_end_a_lazy_start() {
    let begin = Instant::now();
    let (client, backend) = started().await;
    client.server().dial = Dial::Failed(DialErrorKind::Refused, "WRONGPASS invalid username-password pair");
    sleep(SOON).await;
    is_unavailable(&backend, "WRONGPASS").await;
    client.server().dials.clear();
    sleep(Duration::from_secs(60)).await;
    let dials = client.server().dials.len();
    assert!((59..=2 * 120).contains(&dials), "{dials} dials in a minute");
    client.recover();
    client.answer(move |asked| match asked.name {
        "EVAL" => {
            let now = BEGIN + u64::try_from(begin.elapsed().as_micros()).unwrap();
            Answer::Reply(Reply::List([&*now.to_string(), "lacks", "HSET"].map(text).to_vec()))
        }
        _ => Answer::Usual,
    });
    sleep(SOON).await;
    is_unavailable(&backend, "(HSET)").await;
    client.answer(|asked| match asked.name {
        "INFO" => Answer::Reply(text(&INFO.replace("role:master", "role:slave"))),
        _ => Answer::Usual,
    });
    sleep(SOON).await;
    is_unavailable(&backend, "this is a replica").await;
    client.recover();
    sleep(SOON).await;
    acquire(&backend, "x").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn subscription_that_ends_before_the_first_connection_is_not_made() {
    let (client, backend) = started().await;
    let (_listener, subscriber) = Listener::attached(&backend);
    let subscribing = async {
        assert!(backend.subscribe(subscriber, name("x")).await.is_err(), "it was ended");
    };
    let ending = async {
        backend.unsubscribe(subscriber, name("x")).await.unwrap();
        client.recover();
    };
    tokio::join!(biased; subscribing, ending);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(client.server().subscribed(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn dropped_lazy_backend_stops_dialling() {
    let (client, backend) = started().await;
    sleep(SOON).await;
    drop(backend);
    sleep(SOON).await;
    client.server().dials.clear();
    client.recover();
    sleep(Duration::from_secs(60)).await;
    let server = client.server();
    assert_eq!((server.dials.len(), server.open()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn quorum_is_refused_as_a_lazy_start() {
    let builder = Scripted::default().builder_of("redlock://a,b,c");
    let error = builder.connect_lazy().map(drop).unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Backend);
    assert!(format!("{error:#}").contains("use `distlock::connect`, or `connect_quorum`"), "{error:#}");
}

#[tokio::test(start_paused = true)]
async fn reason_of_an_outage_is_named_with_its_duration() {
    let (client, backend) = connected().await;
    client.server().dial = Dial::Never;
    client.cut();
    is_unavailable(&backend, "(the connection was lost: reset by peer, which quotes '…'; for 0 s)").await;
    for (kind, message) in [
        (DialErrorKind::NobodyListens, "Connection refused"),
        (DialErrorKind::Unreachable, "failed to lookup address information: Name or service not known"),
        (DialErrorKind::Certificate, "InvalidCertificate(CaUsedAsEndEntity)"),
        (DialErrorKind::Refused, "WRONGPASS invalid username-password pair"),
        (DialErrorKind::Refused, "ERR max number of clients reached"),
        (DialErrorKind::Refused, "LOADING Redis is loading the dataset in memory"),
    ] {
        client.recover();
        sleep(Duration::from_secs(10)).await;
        client.server().dial = Dial::Failed(kind, message);
        client.cut();
        sleep(Duration::from_secs(9)).await;
        is_unavailable(&backend, "; for 9 s)").await;
        is_unavailable(&backend, message).await;
    }
}

#[tokio::test(start_paused = true)]
async fn login_is_asked_for_at_each_dial() {
    let (client, asked) = (Scripted::default(), AtomicUsize::new(0));
    let builder = client.builder().credentials(move || {
        let turn = asked.fetch_add(1, Ordering::Relaxed);
        async move {
            match turn {
                3 => Err("the token service is down"),
                _ => Ok(Credentials { username: None, password: Some(format!("canary {turn}")) }),
            }
        }
    });
    let backend = builder.connect().await.unwrap();
    client.cut();
    sleep(SOON).await;
    acquire(&backend, "x").await.expect("the fourth call failed, and was repeated");
    let passwords = client.server().passwords.clone();
    assert_eq!(passwords, ["canary 0", "canary 1", "canary 2", "canary 4"].map(|text| Some(text.to_owned())));
}

#[tokio::test(start_paused = true)]
async fn missing_login_is_named() {
    let client = Scripted::default();
    let failing = client.builder().credentials(|| async { Err("the token service is down") });
    let error = failing.connect().await.map(drop).unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Unavailable);
    assert!(format!("{error:#}").contains("the token service is down"), "{error:#}");
    let silent = client.builder().credentials(std::future::pending::<Result<_, &str>>);
    let error = silent.connect().await.map(drop).unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Unavailable);
    assert!(format!("{error:#}").contains("no credentials within 5s"), "{error:#}");
    assert_eq!(client.server().dials.len(), 0);
}

/// A cluster of two masters, `a:1` with the slot of `x` and `b:1` with the rest.
fn cluster(version_of_b: &'static str) -> Scripted {
    let client = Scripted::default();
    client.answer(move |asked| match asked.name {
        "CLUSTER" => {
            let range = |first, last, host: &str| {
                let node = Reply::List(vec![text(host), Reply::Integer(1)]);
                Reply::List(vec![Reply::Integer(first), Reply::Integer(last), node])
            };
            Answer::Reply(Reply::List(vec![
                range(0, 16_286, "b"),
                range(16_287, 16_287, "a"),
                range(16_288, 16_383, "b"),
            ]))
        }
        "INFO" => {
            let info = INFO.replace("standalone", "cluster");
            let is_b = asked.server == "b:1";
            Answer::Reply(text(&if is_b { info.replace("7.0.15", version_of_b) } else { info }))
        }
        _ => Answer::Usual,
    });
    client
}

#[tokio::test(start_paused = true)]
async fn node_of_a_cluster_that_is_away_joins_later() {
    let client = cluster("7.0.15");
    client.server().down.insert("b:1".to_owned());
    let backend = client.builder_of("redis-cluster://a:1").connect().await.expect("one master answers");
    assert!(
        matches!(backend.warnings(), [ConnectWarning::NotConnected { server, reason }]
            if server == "b:1" && reason.contains("Connection refused")),
        "{:?}",
        backend.warnings()
    );
    acquire(&backend, "x").await.unwrap();
    let error = acquire(&backend, "y").await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (Kind::Unavailable, Applied::No));
    assert!(error.to_string().contains("b:1: Connection refused"), "{error}");
    client.server().down.clear();
    sleep(SOON).await;
    acquire(&backend, "y").await.expect("it answers");
    let probes = client.server().count(|asked| asked.server == "b:1" && asked.runs("probe"));
    assert!(probes > 0, "it was checked");
}

#[tokio::test(start_paused = true)]
async fn older_node_that_joins_later_is_refused() {
    let client = cluster("6.2.14");
    client.server().down.insert("b:1".to_owned());
    let backend = client.builder_of("redis-cluster://a:1").connect().await.unwrap();
    client.server().down.clear();
    sleep(SOON).await;
    let error = acquire(&backend, "y").await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (Kind::Unavailable, Applied::No));
    assert!(error.to_string().contains("\"6.2.14\" has no sharded channels"), "{error}");
    acquire(&backend, "x").await.unwrap();
    drop(backend);
    // Together with the others it is accepted, and the channels are plain.
    let backend = client.builder_of("redis-cluster://a:1").connect().await.unwrap();
    acquire(&backend, "y").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn refusing_node_of_a_cluster_ends_the_start() {
    let client = cluster("5.0.14");
    let connecting = client.builder_of("redis-cluster://a:1").connect();
    let error = connecting.await.map(drop).unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Backend);
    assert!(format!("{error:#}").contains("\"5.0.14\" is too old"), "{error:#}");
    let client = cluster("7.0.15");
    client.server().down.extend(["a:1", "b:1"].map(str::to_owned));
    let connecting = client.builder_of("redis-cluster://a:1").connect();
    assert_eq!(connecting.await.map(drop).unwrap_err().kind(), LockErrorKind::Unavailable);
}

/// The probe finds that the cluster refuses every key while a slot has no server.
#[tokio::test(start_paused = true)]
async fn cluster_that_is_down_does_not_end_the_start() {
    let client = cluster("7.0.15");
    let healthy = std::mem::replace(&mut client.server().answers, Box::new(|_| Answer::Usual));
    let healthy = std::sync::Arc::new(std::sync::Mutex::new(healthy));
    let asked = healthy.clone();
    client.answer(move |arrived| match arrived.name {
        "EVAL" | "EVALSHA" => Answer::Error(refused("CLUSTERDOWN The cluster is down")),
        _ => asked.lock().unwrap()(arrived),
    });
    let backend = client.builder_of("redis-cluster://a:1").connect().await.expect("the masters answer");
    assert_eq!(backend.warnings().len(), 2, "{:?}", backend.warnings());
    let error = acquire(&backend, "x").await.unwrap_err();
    assert!(error.to_string().contains("CLUSTERDOWN"), "{error}");
    client.answer(move |arrived| healthy.lock().unwrap()(arrived));
    sleep(SOON).await;
    acquire(&backend, "x").await.unwrap();
}
