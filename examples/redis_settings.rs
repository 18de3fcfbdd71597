//! How do I connect with a password, a database, a timeout, or an existing fred configuration?
//!
//! `REDIS_URL=redis://127.0.0.1:6379 cargo run -p examples --bin redis_settings`; a URL may also be
//! `redis://user:password@host:port/database`, `rediss://…` (TLS: add `--features lock-fred/tls-ring`), or `redis+unix:///path/of/socket`.

use lock_core::{LockFactory, LockOptions};
use lock_fred::{RedisBackendBuilder, fred::types::config::Config};
use std::{env, error::Error, time::Duration};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());

    let backend = RedisBackendBuilder::from_url(&url)?
        .connect_timeout(Duration::from_secs(2))
        .retention(Some(Duration::from_secs(3600))) // of a fencing counter after its last use: the default
        .connect() // names a missing password, right or master
        .await?;
    for warning in backend.warnings() {
        println!("warning: {warning}");
    }

    // The options of all locks of this factory; `docs/safety.md` explains their consequences.
    let options = LockOptions::new().lease(Duration::from_secs(10)).max_hold(Duration::from_secs(300));
    let locks = LockFactory::builder(backend).options(options).build()?;
    let guard = locks.named("nightly-report")?.acquire().await?;
    println!("valid for another {:?}, renewed by the watchdog", guard.remaining());
    println!("{:?}", guard.release().await); // `Released`; the work is done, so an error is printed, not returned

    // Server, user, password, database and TLS come from fred's configuration; retry policies do not.
    let config = Config::from_url(&url)?;
    let backend = RedisBackendBuilder::from_client(&config)?.connect().await?;
    let lock = LockFactory::new(backend).named("nightly-report")?;
    println!("with a fred configuration: {:?}", lock.acquire().await?.release().await?);

    // The error does not contain the URL, which may hold a password.
    let error = RedisBackendBuilder::from_url("redis://:p@ss/word@cache")
        .err()
        .ok_or("a `/` in a password is `%2F`")?;
    println!("refused: {error}");
    Ok(())
}
