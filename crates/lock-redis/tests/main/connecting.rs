//! Checks made before the first lock, whatever the client.

use crate::{
    scripted::{Answer, BEGIN, Dial, INFO, Scripted, WithoutTls, refused, text},
    support::{acquire, connected, name},
};
use lock_core::{
    LockError, LockErrorKind,
    backend::{Applied, Backend, BackendErrorKind as Kind},
};
use lock_redis::{
    Address, ConnectWarning, RedisBackendBuilder, Tls,
    client::{DialErrorKind, Reply},
};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Asserts that connecting fails with this kind and this text, and leaves no connection open.
async fn is_refused(client: &Scripted, kind: Kind, says: &str) {
    let error = client.builder().connect().await.map(drop).expect_err("must not connect");
    let cause = error.backend_error().expect("server fault");
    assert_eq!((cause.kind(), cause.applied()), (kind, Applied::No), "{cause}");
    assert!(cause.to_string().contains(says), "missing {says:?}: {cause}");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(client.server().open(), 0, "no open connection is left");
}

#[tokio::test(start_paused = true)]
async fn backend_has_two_connections_and_knows_the_clock() {
    let (client, backend) = connected().await;
    let server = client.server();
    assert_eq!((server.dials.len(), server.open()), (2, 2));
    assert_eq!(server.subscribed(), Vec::<String>::new(), "the check ends its subscription");
    assert_eq!(server.count(|asked| asked.name == "INFO"), 1);
    assert!(server.count(|asked| asked.runs("probe")) > 0);
    assert_eq!(backend.server_now(&name("any")).expect("known").as_micros(), BEGIN);
    assert!(backend.warnings().is_empty() && backend.is_connected());
}

#[tokio::test(start_paused = true)]
async fn failed_dial_names_the_remedy() {
    let client = Scripted::default();
    for (dial, message, kind, says) in [
        (
            DialErrorKind::NobodyListens,
            "Connection refused",
            Kind::Unavailable,
            "is a Redis server running there?",
        ),
        (DialErrorKind::Closed, "Connection reset by peer", Kind::Unavailable, "write `rediss://`"),
        (DialErrorKind::Refused, "WRONGPASS invalid", Kind::Denied, "use the correct user and password"),
        (DialErrorKind::Refused, "LOADING in progress", Kind::Unavailable, "LOADING"),
        (DialErrorKind::NotRedis, "HTTP/1.1 400", Kind::Misconfigured, "is this a Redis server"),
    ] {
        client.server().dial = Dial::Failed(dial, message);
        is_refused(&client, kind, says).await;
        is_refused(&client, kind, "connect to redis at cache:6379").await;
    }
}

#[tokio::test(start_paused = true)]
async fn silent_server_is_an_error_at_the_limit() {
    let limit = Duration::from_millis(700);
    let client = Scripted::default();
    client.server().dial = Dial::Never;
    let begin = Instant::now();
    let error = client.builder().connect_timeout(limit).connect().await.map(drop).unwrap_err();
    assert_eq!((error.kind(), begin.elapsed()), (LockErrorKind::Unavailable, limit), "{error}");
    client.server().dial = Dial::Accepted;
    client.answer(|asked| if asked.name == "INFO" { Answer::Never } else { Answer::Usual });
    let begin = Instant::now();
    let error = client.builder().connect_timeout(limit).connect().await.map(drop).unwrap_err();
    assert_eq!((error.kind(), begin.elapsed()), (LockErrorKind::Unavailable, limit), "{error}");
    assert!(error.backend_error().unwrap().to_string().contains("no reply within 700ms (is a Redis server"));
}

#[tokio::test(start_paused = true)]
async fn unsuitable_servers_are_refused_by_kind() {
    let client = Scripted::default();
    for (from, to, says) in [
        ("role:master", "role:slave", "use the address of its master"),
        ("redis_mode:standalone", "redis_mode:cluster", "Redis Cluster"),
        ("redis_mode:standalone", "redis_mode:sentinel", "sentinel"),
        ("7.0.15", "5.0.14", "too old"),
    ] {
        let info = INFO.replace(from, to);
        client.answer(move |asked| match asked.name {
            "INFO" => Answer::Reply(text(&info)),
            _ => Answer::Usual,
        });
        is_refused(&client, Kind::Misconfigured, says).await;
    }
    client.answer(|asked| if asked.name == "INFO" { Answer::Reply(Reply::Nil) } else { Answer::Usual });
    let error = client.builder().connect().await.map(drop).unwrap_err();
    assert!(error.backend_error().unwrap().to_string().contains("unexpected reply"), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn missing_rights_are_named() {
    let client = Scripted::default();
    client.answer(|asked| match asked.name {
        "EVAL" => {
            Answer::Reply(Reply::List(["1767225600000000", "lacks", "HSET PEXPIRE"].map(text).to_vec()))
        }
        _ => Answer::Usual,
    });
    is_refused(&client, Kind::Denied, "(HSET PEXPIRE)").await;
    for command in ["SUBSCRIBE", "UNSUBSCRIBE", "EVAL", "EVALSHA"] {
        client.answer(move |asked| match asked.name == command {
            true => Answer::Error(refused(&format!("NOPERM no permissions to run the '{command}' command"))),
            false => Answer::Usual,
        });
        is_refused(&client, Kind::Denied, &format!("'{command}'")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_command_while_connecting_applied_nothing() {
    let client = Scripted::default();
    for command in ["INFO", "PING", "SUBSCRIBE", "EVALSHA"] {
        client.answer(move |asked| match asked.name == command {
            true => Answer::Error(refused(&format!("ERR unknown command '{command}'"))),
            false => Answer::Usual,
        });
        is_refused(&client, Kind::Protocol, "is the server older than 6.0, or a proxy?").await;
    }
}

#[tokio::test(start_paused = true)]
async fn hidden_info_is_warned_of() {
    let client = Scripted::default();
    let hides = |name: &str| (name == "INFO").then(|| Answer::Error(refused("NOPERM no 'info' command")));
    client.answer(move |asked| hides(asked.name).unwrap_or(Answer::Usual));
    let backend = client.builder().connect().await.unwrap();
    assert!(matches!(backend.warnings(), [ConnectWarning::NotChecked { .. }]));
    drop(backend);
    // A cluster member is recognised nevertheless, since it serves no key.
    client.answer(move |asked| match asked.runs("probe") {
        true => Answer::Error(refused("CLUSTERDOWN Hash slot not served")),
        false => hides(asked.name).unwrap_or(Answer::Usual),
    });
    is_refused(&client, Kind::Misconfigured, "Redis Cluster").await;
}

#[tokio::test(start_paused = true)]
async fn invalid_settings_are_refused_without_a_dial() {
    let client = Scripted::default();
    let retained = |retention| client.builder().retention(Some(retention));
    for builder in
        [retained(Duration::ZERO), retained(Duration::MAX), client.builder().connect_timeout(Duration::ZERO)]
    {
        assert_eq!(builder.connect().await.map(drop).unwrap_err().kind(), LockErrorKind::Backend);
    }
    assert_eq!(client.server().dials.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn missing_tls_names_the_feature() {
    const FEATURE: &str = "the feature `tls` of lock-scripted";
    let by_url = RedisBackendBuilder::<WithoutTls>::from_url("rediss://cache").map(drop).unwrap_err();
    assert_eq!(by_url.kind(), LockErrorKind::InvalidUrl);
    assert!(by_url.to_string().contains(FEATURE), "{by_url}");
    let address = Address::parse("redis://cache").unwrap();
    let builder = RedisBackendBuilder::new(WithoutTls::default(), address).tls(Tls::system());
    let error: LockError = builder.connect().await.map(drop).unwrap_err();
    assert!(error.backend_error().unwrap().to_string().contains(FEATURE), "{error:?}");
    assert!(RedisBackendBuilder::<WithoutTls>::from_url("redis://cache").is_ok());
    RedisBackendBuilder::<Scripted>::from_url("rediss://cache").unwrap().connect().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dropped_connect_leaves_no_connection() {
    let client = Scripted::default();
    client.answer(|_| Answer::Late(Duration::from_millis(10)));
    for patience in (0..60).step_by(5) {
        let patience = Duration::from_millis(patience);
        let _ = timeout(patience, client.builder().connect()).await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(client.server().open(), 0);
}

#[tokio::test(start_paused = true)]
async fn dropped_backend_closes_its_connections() {
    let (client, backend) = connected().await;
    acquire(&backend, "x").await.unwrap();
    let clone = backend.clone();
    drop(backend);
    acquire(&clone, "x").await.unwrap();
    drop(clone);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let server = client.server();
    assert_eq!((server.open(), server.dials.len()), (0, 2));
}
