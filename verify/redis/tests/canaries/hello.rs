//! Servers and proxies that do not know a command quote its arguments, which may be a login.

use super::{CANARY, ear};
use crate::client::{LOGIN, RedisBackend, TARGET};
use lock_core::{LockError, LockFactory};
use lock_testkit::{RedisServer, TcpProxy};
use std::{
    error::Error,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

/// The quoted password. The client library's own records may contain it, and other tests of this process examine those.
const QUOTED: &str = "quoted-canary-0815";

fn is_silent(what: &str, text: &str) {
    for secret in [CANARY, QUOTED] {
        assert!(!text.contains(secret), "{what} contains a secret: {text}");
    }
}

/// Returns all texts of an error and its causes.
pub(crate) fn texts(error: &LockError) -> String {
    let mut text = format!("{error} {error:#} {error:?} {error:#?}");
    let mut next = error.source();
    while let Some(cause) = next {
        text += &format!(" {cause} {cause:#} {cause:?} {cause:#?}");
        next = cause.source();
    }
    text
}

pub(crate) fn url(password: &str, port: u16) -> String {
    format!("redis://:{password}@127.0.0.1:{port}")
}

/// Returns the log lines of this project. `docs/protocol.md` describes the library's records of a refused login.
fn own_log_lines() -> String {
    ear::heard().lines().filter(|line| !line.contains(TARGET)).collect::<Vec<_>>().join("\n")
}

/// Starts a server that knows no command and quotes each with its arguments, like Redis.
fn knows_nothing() -> SocketAddr {
    fn answer(mut stream: TcpStream) {
        let mut bytes = [0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
            let words: Vec<_> = text.lines().filter(|line| !line.starts_with(['*', '$'])).collect();
            let Some((command, args)) = words.split_first() else { return };
            let args: String = args.iter().map(|arg| format!("'{arg}' ")).collect();
            let error = format!("-ERR unknown command '{command}', with args beginning with: {args}\r\n");
            if stream.write_all(error.as_bytes()).is_err() {
                return;
            }
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || answer(stream.unwrap()));
        }
    });
    address
}

#[tokio::test]
async fn error_of_a_connect_names_the_unknown_command_only() {
    ear::listen();
    let port = knows_nothing().port();
    for url in [url(QUOTED, port), format!("redis://shop:{QUOTED}@127.0.0.1:{port}")] {
        let error = RedisBackend::connect(&url).await.map(drop).expect_err("no AUTH support");
        let text = texts(&error);
        is_silent("an error", &text);
        assert!(
            text.contains(&format!("unknown command {LOGIN} (is the server older than 6.0, or a proxy?)")),
            "{text}"
        );
        assert!(!error.is_retryable(), "{text}");
    }
    is_silent("a log line", &own_log_lines());
}

#[tokio::test]
async fn error_of_a_reconnect_names_the_unknown_command_only() {
    ear::listen();
    let known = RedisServer::builder().password(QUOTED).start();
    let proxy = TcpProxy::start(known.address());
    let backend = RedisBackend::connect(&url(QUOTED, proxy.port())).await.unwrap();
    let locks = LockFactory::new(backend.clone());
    locks.named("x").unwrap().acquire().await.unwrap().release().await.unwrap();
    let connections = proxy.accepted();
    proxy.retarget(knows_nothing());
    proxy.cut();
    // Each of the two connections is dialled more than once.
    while proxy.accepted() < connections + 6 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        for error in [backend.ping().await.map(drop), locks.inspect("x").await.map(drop)] {
            is_silent("an error", &error.as_ref().err().map(texts).unwrap_or_default());
        }
    }
    let error = locks.named("x").unwrap().try_acquire().await.map(drop).expect_err("no AUTH support");
    is_silent("an error", &texts(&error));
    is_silent("a log line", &own_log_lines());
}
