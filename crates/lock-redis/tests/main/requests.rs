//! Requests: sent once, with errors that say whether they may have been executed.

use crate::{
    scripted::{Answer, Dial},
    support::{acquire, acquisition, connected, meaning, name, release_request, renewal},
};
use lock_core::{
    FencingToken,
    backend::{
        AcquireMode, AcquireRequest, Acquired, Applied, Backend, BackendErrorKind as Kind, BackendExt as _,
        Released, Renewed,
    },
};
use lock_redis::client::{CallError, DialErrorKind, Reply};
use std::time::Duration;
use tokio::time::{Instant, sleep};

#[tokio::test(start_paused = true)]
async fn unknown_script_is_sent_as_text_once() {
    let (client, backend) = connected().await;
    client.server().arrived.clear();
    for _ in 0..3 {
        let reply = acquire(&backend, "x").await.unwrap();
        assert!(matches!(reply.outcome, Acquired::Granted { .. }), "{reply:?}");
    }
    let server = client.server();
    let names: Vec<_> = server.arrived.iter().map(|asked| asked.name).collect();
    assert_eq!(names, ["EVALSHA", "EVAL", "EVALSHA", "EVALSHA"]);
    let [by_hash, by_text, ..] = &server.arrived[..] else { panic!("four commands") };
    assert_eq!(by_hash.arguments[1..], by_text.arguments[1..], "with the same keys and arguments");
    assert_eq!(by_hash.arguments[1..4], ["2", "x", "redisson_lock_token:{x}"]);
}

#[tokio::test(start_paused = true)]
async fn time_alone_is_the_usual_reply() {
    const NOW: u64 = 1_767_225_600_000_000;
    let (client, backend) = connected().await;
    client.answer(|asked| match asked.name {
        "EVALSHA" => Answer::Reply(Reply::Integer(NOW.cast_signed())),
        // The script releases.
        "HDEL" => Answer::Reply(Reply::Integer(0)),
        _ => Answer::Usual,
    });
    for (reserve, reserved) in [(0, 0), (64, 64), (u32::MAX, 1_000)] {
        let mode = AcquireMode::New { reserve, floor: None };
        let reply = backend.acquire(AcquireRequest { mode, ..acquisition("x") }).await.unwrap();
        let (first, last) = (FencingToken::new(NOW), FencingToken::new(NOW + reserved));
        assert_eq!(reply.outcome, Acquired::Granted { first, last });
        assert_eq!(reply.now.as_micros(), NOW);
    }
    let reentry = AcquireRequest { mode: AcquireMode::Reenter { depth: 2 }, ..acquisition("x") };
    assert_eq!(backend.acquire(reentry).await.unwrap().outcome, Acquired::Reentered);
    assert_eq!(backend.renew(vec![renewal("x")]).await.remove(0).unwrap().outcome, Renewed::Renewed);
    let released = backend.release(release_request("x")).await.unwrap().outcome;
    assert_eq!(released, Released::Released { listeners: Some(0) });
    let inspected = backend.inspect(name("x")).await;
    assert_eq!(inspected.unwrap_err().kind(), Kind::Protocol, "this script always says more");
}

#[tokio::test(start_paused = true)]
async fn request_on_an_ended_connection_is_unknown() {
    let (client, backend) = connected().await;
    acquire(&backend, "x").await.unwrap();
    let unknown = (Kind::Unavailable, Applied::Unknown);
    // The client reports the loss.
    client.answer(|asked| if asked.runs("acquire") { Answer::End } else { Answer::Usual });
    assert_eq!(meaning(&acquire(&backend, "x").await), unknown);
    sleep(Duration::from_secs(1)).await;
    // The client does not report the request, and the connection ends.
    client.answer(|asked| if asked.runs("acquire") { Answer::Never } else { Answer::Usual });
    let begin = Instant::now();
    let cut = async {
        sleep(Duration::from_millis(10)).await;
        client.cut();
    };
    let (answer, ()) = tokio::join!(acquire(&backend, "x"), cut);
    assert_eq!(meaning(&answer), unknown);
    assert_eq!(begin.elapsed(), Duration::from_millis(10), "at once");
    sleep(Duration::from_secs(1)).await;
    let vanish = async {
        sleep(Duration::from_millis(10)).await;
        client.vanish();
    };
    let begin = Instant::now();
    let (answer, ()) = tokio::join!(acquire(&backend, "x"), vanish);
    assert_eq!((meaning(&answer), begin.elapsed()), (unknown, Duration::from_millis(10)));
    sleep(Duration::from_secs(10)).await;
    assert_eq!(client.server().count(|asked| asked.runs("acquire")), 4, "each is sent once");
}

/// The first request to learn of the loss ends the others in progress.
#[tokio::test(start_paused = true)]
async fn lost_request_ends_the_connection_for_all() {
    let (client, backend) = connected().await;
    acquire(&backend, "x").await.unwrap();
    client.answer(|asked| match asked.name {
        "PING" => Answer::Error(CallError::Lost("out of step".to_owned())),
        _ => Answer::Never,
    });
    let begin = Instant::now();
    let (a, b) = tokio::join!(acquire(&backend, "a"), backend.ping());
    assert_eq!(meaning(&a), (Kind::Unavailable, Applied::Unknown));
    assert!(b.is_err());
    assert_eq!(begin.elapsed(), Duration::ZERO);
    client.recover();
    acquire(&backend, "c").await.expect("on the next connection");
    assert_eq!(client.server().dials.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn request_without_a_connection_is_not_sent() {
    let (client, backend) = connected().await;
    client.server().dial = Dial::Failed(DialErrorKind::NobodyListens, "Connection refused");
    client.cut();
    sleep(Duration::from_secs(1)).await;
    assert!(!backend.is_connected());
    let begin = Instant::now();
    let answer = acquire(&backend, "x").await;
    assert_eq!(meaning(&answer), (Kind::Unavailable, Applied::No));
    assert_eq!(begin.elapsed(), Duration::from_millis(300));
    client.recover();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(client.server().count(|asked| asked.runs("acquire")), 0, "not sent later either");
    acquire(&backend, "x").await.expect("the server is back");
}

#[tokio::test(start_paused = true)]
async fn request_waits_for_the_next_connection() {
    let (client, backend) = connected().await;
    let begin = Instant::now();
    client.cut();
    tokio::task::yield_now().await;
    acquire(&backend, "x").await.expect("another connection comes within 300 ms");
    let waited = begin.elapsed().as_millis();
    assert!((150..=250).contains(&waited), "{waited} ms");
}

#[tokio::test(start_paused = true)]
async fn unsent_request_is_certain() {
    let (client, backend) = connected().await;
    client.answer(|_| Answer::Error(CallError::NotSent("no room".to_owned())));
    assert_eq!(meaning(&acquire(&backend, "x").await), (Kind::Unavailable, Applied::No));
    client.answer(|_| Answer::Error(CallError::Unreadable("a map".to_owned())));
    assert_eq!(meaning(&acquire(&backend, "x").await), (Kind::Protocol, Applied::Unknown));
    client.recover();
    acquire(&backend, "x").await.unwrap();
    client.answer(|_| Answer::Reply(Reply::Nil));
    assert_eq!(meaning(&acquire(&backend, "x").await), (Kind::Protocol, Applied::Unknown));
    client.recover();
    acquire(&backend, "x").await.unwrap();
    assert_eq!(client.server().dials.len(), 4, "a connection with such a reply is replaced");
}

#[tokio::test(start_paused = true)]
async fn every_answer_sets_the_clock() {
    let (client, backend) = connected().await;
    client.server().ahead = Duration::from_secs(60);
    let stale = backend.server_now(&name("any")).unwrap().as_micros();
    assert!(stale < client.server().now());
    acquire(&backend, "x").await.unwrap();
    assert_eq!(backend.server_now(&name("any")).unwrap().as_micros(), client.server().now());
    sleep(Duration::from_secs(60)).await;
    assert_eq!(
        backend.server_now(&name("any")).unwrap().as_micros(),
        client.server().now(),
        "the clock continues"
    );
    client.server().ahead = Duration::ZERO;
    backend.renew(vec![renewal("x")]).await;
    assert_eq!(
        backend.server_now(&name("any")).unwrap().as_micros(),
        client.server().now(),
        "a step back is followed as well"
    );
}

/// The request is assumed to be executed in the middle of its round trip.
#[tokio::test(start_paused = true)]
async fn clock_assumes_the_middle_of_the_round_trip() {
    let (client, backend) = connected().await;
    acquire(&backend, "x").await.unwrap();
    let way = Duration::from_secs(1);
    client.answer(move |_| Answer::Late(way));
    acquire(&backend, "x").await.unwrap();
    let estimate = backend.server_now(&name("any")).unwrap().as_micros();
    assert_eq!(estimate, client.server().now() + u64::try_from(way.as_micros()).unwrap() / 2);
}

/// The connections end with the runtime. Nothing hangs or panics.
#[test]
fn backend_without_its_runtime_fails() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let (_client, backend) = first.block_on(connected());
    drop(first);
    let answer = runtime().block_on(acquire(&backend, "x"));
    assert_eq!(meaning(&answer), (Kind::Misconfigured, Applied::No));
    assert!(answer.unwrap_err().to_string().contains("runtime"));
}
