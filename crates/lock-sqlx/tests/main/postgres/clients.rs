//! Clients that wait for wake-ups alone, and what is between them and the server.

use super::support::Schema;
use lock_core::{Lock, LockError, LockFactory, LockGuard, LockOptions, Retention};
use lock_sqlx::PostgresBackend;
use sqlx::PgPool;
use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};

/// Long before a lease ends or a waiter polls.
pub(super) const SOON: Duration = Duration::from_secs(8);

pub(super) async fn is_woken(waiting: JoinHandle<Result<LockGuard, LockError>>) {
    drop(timeout(SOON, waiting).await.expect("it is woken").unwrap().unwrap());
}

/// No lease ends, and no waiter polls, during a test.
pub(super) fn patient() -> LockOptions {
    LockOptions::default().lease(Duration::from_secs(600)).poll_interval(Duration::from_secs(600))
}

pub(super) fn short_lived() -> LockOptions {
    patient().retention(Retention::For(Duration::from_secs(1)))
}

pub(super) fn lock(locks: &LockFactory, name: &str, options: LockOptions) -> Lock {
    locks.named(name).unwrap().with_options(options).unwrap()
}

pub(super) async fn run(pool: &PgPool, text: &str) {
    sqlx::raw_sql(sqlx::AssertSqlSafe(text.to_owned())).execute(pool).await.unwrap();
}

/// A client with this URL, through another address.
pub(super) async fn through(schema: &Schema, server: SocketAddr, proxy: SocketAddr) -> LockFactory {
    let url = schema.url().replace(&server.to_string(), &proxy.to_string());
    LockFactory::new(PostgresBackend::connect(&url).await.unwrap())
}

pub(super) async fn sweeps(locks: &LockFactory, releases: u32) {
    for number in 0..releases {
        locks.named(format!("y:{number}")).unwrap().acquire().await.unwrap().release().await.unwrap();
    }
}

/// A proxy that forgets its connections without a word, as a firewall does. New ones pass.
pub(super) struct Firewall {
    pub(super) address: SocketAddr,
    generation: watch::Sender<u32>,
}

impl Firewall {
    pub(super) async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (generation, current) = watch::channel(0);
        tokio::spawn(async move {
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let mut forgotten = current.clone();
                forgotten.mark_unchanged();
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(target).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                        _ = forgotten.changed() => sleep(Duration::from_secs(3_600)).await,
                    }
                });
            }
        });
        Self { address, generation }
    }

    pub(super) fn forget(&self) {
        self.generation.send_modify(|number| *number += 1);
    }
}

/// The first statement with parameters.
pub(super) fn first_statement() -> impl Fn(&[u8]) -> bool + Send + Sync + 'static {
    let was_seen = AtomicBool::new(false);
    move |bytes| bytes.starts_with(b"B") && !was_seen.swap(true, Ordering::SeqCst)
}
