//! Passwords are never printed, although servers, proxies and client libraries may quote them.

use crate::{
    scripted::{Answer, Dial, Scripted, refused},
    support::{acquire, connected},
};
use lock_core::LockError;
use lock_redis::client::DialErrorKind;
use lock_testkit::ThreadLog;
use std::{error::Error, time::Duration};
use tokio::time::sleep;
use tracing::level_filters::LevelFilter;

/// The password of every backend of these tests, which the scripted server quotes.
const CANARY: &str = "canary";
const QUOTES: [&str; 2] =
    ["ERR unknown command 'AUTH', with args beginning with: 'canary' ", "ERR who is 'canary'?"];

fn assert_silent(error: &(dyn Error + 'static)) {
    let mut next = Some(error);
    while let Some(cause) = next {
        let text = format!("{cause} {cause:?} {cause:#?}");
        assert!(!text.contains(CANARY), "{text}");
        next = cause.source();
    }
}

#[tokio::test(start_paused = true)]
async fn password_is_in_no_error_and_no_log_line() {
    let log = ThreadLog::listen(LevelFilter::TRACE);

    for quotes in QUOTES {
        let dialled = Scripted::default();
        dialled.server().dial = Dial::Failed(DialErrorKind::Refused, quotes);
        let error: LockError = dialled.builder().connect().await.map(drop).unwrap_err();
        assert_silent(&error);
        let asked = Scripted::default();
        asked.answer(move |_| Answer::Error(refused(quotes)));
        let error: LockError = asked.builder().connect().await.map(drop).unwrap_err();
        assert_silent(&error);

        let (client, backend) = connected().await;
        assert!(!format!("{backend:?} {:?}", client.builder()).contains(CANARY));
        client.answer(move |_| Answer::Error(refused(quotes)));
        assert_silent(&acquire(&backend, "x").await.unwrap_err());
        assert_silent(&backend.ping().await.unwrap_err());
        client.answer(|_| Answer::End);
        assert_silent(&acquire(&backend, "x").await.unwrap_err());
        sleep(Duration::from_secs(1)).await;
        // The reason for the end quotes it, and so does every later dial.
        client.server().dial = Dial::Failed(DialErrorKind::Refused, quotes);
        client.cut();
        sleep(Duration::from_secs(10)).await;
        assert_silent(&acquire(&backend, "x").await.unwrap_err());
    }

    let log = log.text();
    assert!(
        log.contains("redis connection lost") && log.contains("failed to connect to redis, retrying"),
        "{log}"
    );
    assert!(log.contains("unknown command AUTH"), "{log}");
    assert!(!log.contains(CANARY), "{log}");
}
