//! Releases: two commands if they are enough, and otherwise the script.

use crate::{
    scripted::{Answer, Arrived, Scripted, refused, text},
    support::{Backed, acquire, connected, meaning, release_request},
};
use lock_core::backend::{
    Applied, BackendErrorKind as Kind, BackendExt as _, NotifyWaiters, ReleaseRequest, Released,
};
use lock_redis::client::{CallError, Reply};
use std::time::Duration;
use tokio::time::sleep;

/// Returns a backend that knows the clock and the scripts of its server.
async fn warm() -> (Scripted, Backed) {
    let (client, backend) = connected().await;
    acquire(&backend, "x").await.unwrap();
    backend.release(ReleaseRequest { depth_left: 1, ..release_request("x") }).await.unwrap();
    client.server().arrived.clear();
    (client, backend)
}

/// Returns the commands that arrived, without the reading of the clock by each dial.
fn names(client: &Scripted) -> Vec<&'static str> {
    client.server().arrived.iter().map(|asked| asked.name).filter(|name| *name != "TIME").collect()
}

/// Sets the replies to `HDEL` and `PUBLISH`. The script replies that the lease is gone.
fn answer(client: &Scripted, free: fn() -> Answer, wake: fn() -> Answer) {
    client.answer(move |asked: &Arrived| match asked.name {
        "HDEL" => free(),
        "PUBLISH" => wake(),
        _ if asked.runs("release") => {
            Answer::Reply(Reply::List(vec![text("1767225600000000"), text("gone"), Reply::Integer(1)]))
        }
        _ => Answer::Usual,
    });
}

fn number(number: i64) -> Answer {
    Answer::Reply(Reply::Integer(number))
}

#[tokio::test(start_paused = true)]
async fn release_frees_the_lock_before_it_wakes_the_waiters() {
    let (client, backend) = warm().await;
    answer(&client, || number(1), || number(3));
    sleep(Duration::from_secs(1)).await;
    let request = release_request("x");
    let lease = request.lease.to_string();
    let reply = backend.release(request).await.unwrap();
    assert_eq!(reply.outcome, Released::Released { listeners: Some(3) });
    let server = client.server();
    assert_eq!(reply.now.as_micros(), server.now(), "the estimate of the server's clock");
    let sent: Vec<_> = server.arrived.iter().map(|asked| (asked.name, asked.arguments.clone())).collect();
    let words = |words: [&str; 2]| words.map(str::to_owned).to_vec();
    let expected = [("HDEL", words(["x", &lease])), ("PUBLISH", words(["redisson_lock__channel:{x}", "0"]))];
    assert_eq!(sent, expected);
    assert!(server.arrived.iter().all(|asked| asked.connection == server.arrived[0].connection));
}

#[tokio::test(start_paused = true)]
async fn script_explains_a_lease_that_is_gone() {
    let (client, backend) = warm().await;
    answer(&client, || number(0), || number(1));
    let released = backend.release(release_request("x")).await.unwrap();
    assert_eq!(released.outcome, Released::Gone { held_by_other: true });
    assert_eq!(names(&client), ["HDEL", "PUBLISH", "EVALSHA"]);
}

/// The script says so.
#[tokio::test(start_paused = true)]
async fn key_of_another_type_has_no_lease() {
    let (client, backend) = warm().await;
    let wrong_type = || Answer::Error(refused("WRONGTYPE Operation against a key holding the wrong kind"));
    answer(&client, wrong_type, || number(1));
    let released = backend.release(release_request("x")).await.unwrap();
    assert_eq!(released.outcome, Released::Gone { held_by_other: true });
    assert_eq!(names(&client), ["HDEL", "PUBLISH", "EVALSHA"]);
}

/// The subscriptions move with the slot, and then the waiters ask.
#[tokio::test(start_paused = true)]
async fn slot_that_moves_between_the_commands_is_released() {
    let (client, backend) = warm().await;
    answer(&client, || number(1), || Answer::Error(refused("MOVED 4 10.0.0.2:6379")));
    let released = backend.release(release_request("x")).await.unwrap();
    assert_eq!(released.outcome, Released::Released { listeners: None });
    assert_eq!(names(&client), ["HDEL", "PUBLISH"]);
}

/// A proxy may execute the second command first.
#[tokio::test(start_paused = true)]
async fn every_release_can_be_a_script() {
    let client = Scripted::default();
    let backend = client.builder().release_by_script(true).connect().await.unwrap();
    acquire(&backend, "x").await.unwrap();
    backend.release(release_request("x")).await.unwrap();
    client.server().arrived.clear();
    backend.release(release_request("x")).await.unwrap();
    assert_eq!(names(&client), ["EVALSHA"]);
}

/// A refused script would say the same. A client may fail all requests in progress with the error of one, and then this
/// one may have been executed.
#[tokio::test(start_paused = true)]
async fn refusal_has_the_meaning_that_it_has_from_a_script() {
    let (client, backend) = warm().await;
    let denied = || Answer::Error(refused("NOPERM this user has no permissions to run the 'hdel' command"));
    let cluster_down = || Answer::Error(refused("CLUSTERDOWN Hash slot not served"));
    let read_only = || Answer::Error(refused("READONLY You can't write against a read only replica."));
    for (free, expected) in [
        (denied as fn() -> Answer, (Kind::Denied, Applied::No)),
        (cluster_down, (Kind::Unavailable, Applied::Unknown)),
        (read_only, (Kind::Unavailable, Applied::No)),
    ] {
        answer(&client, free, || number(0));
        assert_eq!(meaning(&backend.release(release_request("x")).await), expected);
        assert_eq!(names(&client), ["HDEL", "PUBLISH"]);
        client.server().arrived.clear();
    }
    sleep(Duration::from_secs(1)).await;
    assert_eq!(client.server().dials.len(), 4, "both connections to a replica are replaced");
}

#[tokio::test(start_paused = true)]
async fn script_lowers_depths_and_wakes_nobody_without_need() {
    let (client, backend) = warm().await;
    let request = || release_request("x");
    backend.release(ReleaseRequest { depth_left: 1, ..request() }).await.unwrap();
    for notify in [NotifyWaiters::No, NotifyWaiters::Yes] {
        backend.release(ReleaseRequest { notify, ..request() }).await.unwrap();
    }
    assert_eq!(names(&client), ["EVALSHA"; 3]);
}

/// The lock is free, but a waiter may still sleep. A repeat would wake it and find no lease, which must not count as a
/// loss.
#[tokio::test(start_paused = true)]
async fn release_that_may_not_have_woken_is_unknown() {
    let (client, backend) = warm().await;
    let denied = || Answer::Error(refused("NOPERM No permissions to access a channel"));
    let unsent = || Answer::Error(CallError::NotSent("no room".to_owned()));
    for (wake, kind) in [
        (denied as fn() -> Answer, Kind::Denied),
        (unsent, Kind::Unavailable),
        (|| Answer::Reply(Reply::Nil), Kind::Protocol),
        (|| Answer::End, Kind::Unavailable),
    ] {
        answer(&client, || number(1), wake);
        let released = backend.release(release_request("x")).await;
        assert_eq!(meaning(&released), (kind, Applied::Unknown));
        assert_eq!(names(&client), ["HDEL", "PUBLISH"], "sent once");
        client.server().arrived.clear();
        sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn release_without_a_reply_is_not_repeated_by_the_script() {
    let (client, backend) = warm().await;
    let unsent = || Answer::Error(CallError::NotSent("no room".to_owned()));
    for (free, certain) in [(unsent as fn() -> Answer, Applied::No), (|| Answer::End, Applied::Unknown)] {
        answer(&client, free, || number(0));
        let released = backend.release(release_request("x")).await;
        assert_eq!(meaning(&released), (Kind::Unavailable, certain));
        assert!(!names(&client).contains(&"EVALSHA"));
        client.server().arrived.clear();
        sleep(Duration::from_secs(1)).await;
    }
}
