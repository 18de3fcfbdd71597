//! Sections that lose increments unless a lock serializes them.

use super::{Failure, Orders};
use crate::line::{Order, Report, now};
use lock_core::Lock;
use lock_testkit::RawRedis;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};
use tokio::task::{JoinSet, spawn_blocking};

/// A key that is read and then written. Only the lock prevents lost increments.
#[derive(Clone)]
pub(super) struct Counter {
    connection: Arc<Mutex<RawRedis>>,
    key: String,
}

impl Counter {
    pub(super) fn connect(url: &str, key: &str) -> Result<Self, Failure> {
        let address = url.strip_prefix("redis://").ok_or("the counter requires a `redis://` address")?;
        let connection = RawRedis::connect(address.parse()?)?;
        Ok(Self { connection: Arc::new(Mutex::new(connection)), key: key.to_owned() })
    }

    async fn increment(&self) -> Result<(), Failure> {
        let this = self.clone();
        let work = move || {
            let mut connection = this.connection.lock().map_err(|_| "an earlier increment panicked")?;
            let before = connection.try_command(&["GET", &this.key])?;
            let before: u64 = if before.is_nil() { 0 } else { before.text().parse()? };
            connection.try_command(&["SET", &this.key, &(before + 1).to_string()])?;
            Ok(())
        };
        spawn_blocking(work).await?
    }
}

pub(super) async fn run(
    lock: &Lock,
    tasks: usize,
    sections: usize,
    counter: Counter,
    orders: &mut Orders,
) -> Result<(), Failure> {
    Report::Ready.say();
    orders.wait_for(&Order::Go).await;
    let begun = Arc::new(AtomicUsize::new(0));
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        running.spawn(work(lock.clone(), sections, begun.clone(), counter.clone()));
    }
    let mut grants = Vec::new();
    while let Some(done) = running.join_next().await {
        grants.extend(done??);
    }
    for &(token, at) in &grants {
        Report::Token { token, at }.say();
    }
    Report::Done { sections: grants.len() }.say();
    Ok(())
}

async fn work(
    lock: Lock,
    sections: usize,
    begun: Arc<AtomicUsize>,
    counter: Counter,
) -> Result<Vec<(u64, u64)>, Failure> {
    let mut grants = Vec::new();
    while begun.fetch_add(1, Ordering::Relaxed) < sections {
        let guard = lock.acquire().await?;
        grants.push((guard.fencing_token().get(), now()));
        counter.increment().await?;
        if !guard.release().await?.was_held() {
            return Err("a hold was lost".into());
        }
    }
    Ok(grants)
}
