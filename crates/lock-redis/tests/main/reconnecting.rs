//! Connections that end, fall silent or lead to a replica, and the dials that follow.

use crate::{
    scripted::{Answer, Dial, Scripted, refused, text},
    support::{Backed, acquire, connected, meaning},
};
use lock_core::backend::{Applied, BackendErrorKind as Kind};
use lock_redis::client::{DialErrorKind, Reply};
use std::{collections::BTreeSet, time::Duration};
use tokio::time::{Instant, sleep};

const READ_ONLY: &str = "READONLY You can't write against a read only replica.";

/// Returns the times of the dials during an outage. Both connections dial independently.
async fn dials_of_an_outage(client: &Scripted, dial: Dial, outage: Duration) -> Vec<Instant> {
    client.server().dials.clear();
    client.server().dial = dial;
    client.cut();
    sleep(outage).await;
    client.server().dials.clone()
}

/// Makes the server refuse every acquire, like a replica.
fn is_read_only(client: &Scripted) {
    client.answer(|asked| match asked.runs("acquire") {
        true => Answer::Error(refused(READ_ONLY)),
        false => Answer::Usual,
    });
}

#[tokio::test(start_paused = true)]
async fn unreachable_server_is_dialled_every_200_ms() {
    let (client, backend) = connected().await;
    let nobody = Dial::Failed(DialErrorKind::NobodyListens, "Connection refused");
    let (begin, outage) = (Instant::now(), Duration::from_secs(60));
    let dials = dials_of_an_outage(&client, nobody, outage).await;
    // Each connection dials every 150 to 250 ms.
    assert!((2 * 240..=2 * 400).contains(&dials.len()), "{} dials", dials.len());
    let first = (dials[0] - begin).as_millis();
    assert!((150..=250).contains(&first), "{first} ms");
    let gaps = dials.windows(2).map(|pair| (pair[1] - pair[0]).as_millis());
    assert_eq!(gaps.filter(|gap| *gap > 250).count(), 0, "never longer");
    client.recover();
    sleep(Duration::from_millis(300)).await;
    assert!(backend.is_connected());
    acquire(&backend, "x").await.unwrap();
}

/// The login may be corrected while the program is running. Until then the server must not be dialled every 200 ms.
#[tokio::test(start_paused = true)]
async fn refused_login_is_repeated_after_half_a_second() {
    let (client, backend) = connected().await;
    let refused = Dial::Failed(DialErrorKind::Refused, "WRONGPASS invalid username-password pair");
    let dials = dials_of_an_outage(&client, refused, Duration::from_secs(60)).await;
    assert!((2 * 59..=2 * 120).contains(&dials.len()), "{} dials", dials.len());
    client.recover();
    sleep(Duration::from_secs(1)).await;
    acquire(&backend, "x").await.expect("the password is right again");
}

#[tokio::test(start_paused = true)]
async fn reconnects_of_processes_are_spread() {
    let mut firsts = BTreeSet::new();
    for _ in 0..30 {
        let (client, _backend) = connected().await;
        let begin = Instant::now();
        let dials = dials_of_an_outage(&client, Dial::Accepted, Duration::from_secs(1)).await;
        assert_eq!(dials.len(), 2);
        firsts.extend(dials.iter().map(|dial| (*dial - begin).as_millis()));
    }
    assert!(firsts.len() > 20, "{firsts:?}");
    assert!(firsts.iter().all(|first| (150..=250).contains(first)), "{firsts:?}");
}

/// TCP alone would need a quarter of an hour.
#[tokio::test(start_paused = true)]
async fn silent_connection_is_replaced_within_3_s() {
    let (client, backend) = connected().await;
    client.answer(|asked| if asked.runs("acquire") { Answer::Never } else { Answer::Usual });
    let begin = Instant::now();
    let answer = acquire(&backend, "x").await;
    assert_eq!(meaning(&answer), (Kind::Unavailable, Applied::Unknown));
    let waited = begin.elapsed().as_millis();
    assert!((2_150..=3_000).contains(&waited), "{waited} ms");
    client.recover();
    acquire(&backend, "x").await.expect("on another connection");
    assert_eq!(client.server().dials.len(), 3, "the connection for messages is kept");
}

#[tokio::test(start_paused = true)]
async fn slow_connection_is_kept() {
    let (client, backend) = connected().await;
    client.answer(|_| Answer::Late(Duration::from_millis(1_900)));
    for _ in 0..20 {
        acquire(&backend, "x").await.unwrap();
    }
    assert_eq!(client.server().dials.len(), 2);
}

/// NATs and firewalls forget idle connections.
#[tokio::test(start_paused = true)]
async fn quiet_connections_are_pinged() {
    let (client, _backend) = connected().await;
    client.server().arrived.clear();
    sleep(Duration::from_secs(61)).await;
    let server = client.server();
    let mut pings: Vec<_> =
        [1, 2].map(|id| server.count(|asked| asked.name == "PING" && asked.connection == id)).to_vec();
    pings.sort_unstable();
    assert_eq!(pings, [6, 12], "every 10 s for requests, every 5 s for messages");
    assert_eq!(server.arrived.len(), 18, "no other requests");
}

/// No requests are sent, and the network path is dead.
#[tokio::test(start_paused = true)]
async fn idle_dead_connection_is_replaced() {
    let (client, backend) = connected().await;
    client.answer(|_| Answer::Never);
    sleep(Duration::from_secs(11)).await;
    client.recover();
    sleep(Duration::from_secs(3)).await;
    assert!(client.server().dials.len() >= 4, "both connections are replaced");
    acquire(&backend, "x").await.unwrap();
}

/// A planned failover: the address leads elsewhere, and the old server reports it.
#[tokio::test(start_paused = true)]
async fn both_connections_leave_a_read_only_server() {
    let (client, backend) = connected().await;
    is_read_only(&client);
    assert_eq!(meaning(&acquire(&backend, "x").await), (Kind::Unavailable, Applied::No));
    client.recover();
    acquire(&backend, "x").await.expect("the new master");
    sleep(Duration::from_millis(300)).await;
    assert_eq!(client.server().dials.len(), 4);
}

/// The replica behind the address reports it from inside a script.
#[tokio::test(start_paused = true)]
async fn replica_inside_a_script_is_noticed() {
    let (client, backend) = connected().await;
    client.answer(|asked| match asked.runs("acquire") {
        true => Answer::Reply(Reply::List(["1767225600000000", "refused", READ_ONLY].map(text).to_vec())),
        false => Answer::Usual,
    });
    assert_eq!(meaning(&acquire(&backend, "x").await), (Kind::Unavailable, Applied::No));
    sleep(Duration::from_millis(300)).await;
    assert_eq!(client.server().dials.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn replacement_lets_requests_finish() {
    let (client, backend) = connected().await;
    acquire(&backend, "x").await.unwrap();
    client.answer(|asked| match asked.arguments.get(2).map(String::as_str) {
        Some("a") => Answer::Late(Duration::from_millis(100)),
        Some("b") => Answer::Error(refused(READ_ONLY)),
        _ => Answer::Usual,
    });
    let (a, b) = tokio::join!(acquire(&backend, "a"), acquire(&backend, "b"));
    assert!(a.is_ok() && b.is_err(), "{a:?}, {b:?}");
}

async fn ask_for(backend: &Backed, time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        let _ = acquire(backend, "x").await;
        sleep(Duration::from_millis(5)).await;
    }
}

/// The whole fleet continues to send requests.
#[tokio::test(start_paused = true)]
async fn lasting_replica_is_dialled_less_and_less_often() {
    let (client, backend) = connected().await;
    // A later outage starts again with short pauses.
    for _ in 0..2 {
        is_read_only(&client);
        client.server().dials.clear();
        let begin = Instant::now();
        ask_for(&backend, Duration::from_secs(60)).await;
        let dials: Vec<_> = client.server().dials.iter().map(|dial| *dial - begin).collect();
        let within =
            |from: u64, to: u64| dials.iter().filter(|dial| (from..to).contains(&dial.as_secs())).count();
        assert!(dials[0] <= Duration::from_millis(260), "the first dial is immediate: {dials:?}");
        let soon = dials.iter().filter(|dial| dial.as_millis() <= 1_400).count();
        assert!(soon >= 2 * 3, "short pauses at first: {dials:?}");
        // Each dial follows a pause of 1 to 2 s, plus 150 to 250 ms to reconnect.
        assert!((2 * 13..=2 * 27).contains(&within(30, 60)), "longer pauses later: {dials:?}");
        client.recover();
        acquire(&backend, "x").await.expect("a master again");
        sleep(Duration::from_secs(10)).await;
    }
}
