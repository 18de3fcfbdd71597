//! A password is never printed, although servers, proxies and client libraries may quote it.

use crate::{
    scripted::{Answer, Dial, Scripted, refused},
    support::{acquire, connected},
};
use lock_core::LockError;
use lock_redis::client::DialErrorKind;
use std::{
    error::Error,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::sleep;

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

/// What this thread logs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn password_is_in_no_error_and_no_log_line() {
    let log = Log::default();
    let to = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(move || to.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);

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
        // The reason of the end quotes it, and so does every dial after it.
        client.server().dial = Dial::Failed(DialErrorKind::Refused, quotes);
        client.cut();
        sleep(Duration::from_secs(10)).await;
        assert_silent(&acquire(&backend, "x").await.unwrap_err());
    }

    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("redis connection lost") && log.contains("redis not reconnected yet"), "{log}");
    assert!(log.contains("it does not know AUTH"), "{log}");
    assert!(!log.contains(CANARY), "{log}");
}
