//! Grants and renewals that replicas must acknowledge.

use crate::{
    scripted::{Answer, Scripted, refused, text},
    support::{Backed, acquire, meaning, release_request, renewal, submit},
};
use lock_core::backend::{
    Acquired, Applied, BackendErrorKind as Kind, BackendExt as _, Outcome, Released, Renewed,
};
use lock_redis::{ConnectWarning, client::Reply};

/// Connects a backend that requires two acknowledgements.
async fn connected() -> (Scripted, Backed) {
    let client = Scripted::default();
    let info = "redis_version:7.0.15\r\nredis_mode:standalone\r\nrole:master\r\nconnected_slaves:2\r\n";
    client.answer(move |asked| match asked.name {
        "INFO" => Answer::Reply(text(info)),
        _ => Answer::Usual,
    });
    let backend = client.builder().replicas(2).connect().await.expect("healthy store");
    (client, backend)
}

#[tokio::test(start_paused = true)]
async fn too_few_acknowledgements_leave_the_outcome_unknown() {
    let (client, backend) = connected().await;
    assert_eq!(backend.warnings(), []);
    for acknowledging in [0, 1] {
        client.server().acknowledging = acknowledging;
        assert_eq!(meaning(&acquire(&backend, "x").await), (Kind::Unavailable, Applied::Unknown));
        let renewed = backend.renew(vec![renewal("x")]).await.remove(0);
        assert_eq!(meaning(&renewed), (Kind::Unavailable, Applied::Unknown));
    }
    client.server().acknowledging = 2;
    assert!(matches!(acquire(&backend, "x").await.unwrap().outcome, Acquired::Granted { .. }));
    let renewed = backend.renew(vec![renewal("x")]).await.remove(0);
    assert_eq!(renewed.unwrap().outcome, Renewed::Renewed);
}

#[tokio::test(start_paused = true)]
async fn acknowledgement_follows_its_write_on_the_same_connection() {
    let (client, backend) = connected().await;
    client.server().acknowledging = 2;
    client.server().arrived.clear();
    let answers: Vec<_> = (0..20).map(|number| submit(&backend, &format!("lock:{number}"))).collect();
    for answer in answers {
        assert!(matches!(answer.await.unwrap().outcome, Outcome::Acquired(Acquired::Granted { .. })));
    }
    let server = client.server();
    let (scripts, waits): (Vec<_>, Vec<_>) =
        server.arrived.iter().enumerate().partition(|(_, arrived)| arrived.name != "WAIT");
    assert_eq!(scripts.len(), waits.len());
    for (at, wait) in waits {
        let before = &server.arrived[at - 1];
        assert!(before.name.starts_with("EVAL") && before.connection == wait.connection, "{before:?}");
        assert_eq!(wait.arguments[0], "2");
    }
}

#[tokio::test(start_paused = true)]
async fn answers_without_a_grant_need_no_acknowledgement() {
    let (client, backend) = connected().await;
    let waits = || client.server().count(|asked| asked.name == "WAIT");
    let before = waits();
    assert!(matches!(
        backend.release(release_request("x")).await.unwrap().outcome,
        Released::Released { .. }
    ));
    assert_eq!(waits(), before, "a release does not wait for replicas");
    client.answer(|asked| match asked.runs("acquire") {
        true => Answer::Reply(Reply::List(vec![text("1767225600000000"), text("busy"), Reply::Integer(7)])),
        false => Answer::Usual,
    });
    assert!(matches!(acquire(&backend, "x").await.unwrap().outcome, Acquired::Busy { .. }));
}

#[tokio::test(start_paused = true)]
async fn missing_replicas_and_settings_are_warned_of() {
    let client = Scripted::default();
    client.answer(|asked| match asked.name {
        "CONFIG" => Answer::Error(refused("NOPERM no permissions to run the 'config|get' command")),
        _ => Answer::Usual,
    });
    let backend = client.builder().replicas(2).connect().await.unwrap();
    let [few, alone] = backend.warnings() else { panic!("two: {:?}", backend.warnings()) };
    assert_eq!(*few, ConnectWarning::TooFewReplicas { connected: 0, wanted: 2 });
    assert!(matches!(alone, ConnectWarning::WritesAlone { reason } if reason.contains("config|get")));
    for (least, lag) in [("0", "10"), ("1", "11"), ("1", "0")] {
        client.answer(move |asked| match asked.name {
            "CONFIG" => {
                let settings = ["min-replicas-max-lag", lag, "min-replicas-to-write", least];
                Answer::Reply(Reply::List(settings.map(text).to_vec()))
            }
            _ => Answer::Usual,
        });
        let backend = client.builder().replicas(2).connect().await.unwrap();
        assert!(matches!(backend.warnings(), [_, ConnectWarning::WritesAlone { .. }]), "{least} {lag}");
    }
}

#[tokio::test(start_paused = true)]
async fn missing_right_to_wait_is_named() {
    let client = Scripted::default();
    client.answer(|asked| match asked.name {
        "WAIT" => Answer::Error(refused("NOPERM no permissions to run the 'wait' command")),
        _ => Answer::Usual,
    });
    let error = client.builder().replicas(1).connect().await.map(drop).unwrap_err();
    let cause = error.backend_error().expect("server fault");
    assert_eq!(cause.kind(), Kind::Denied);
    assert!(cause.to_string().contains("'wait'"), "{cause}");
}
