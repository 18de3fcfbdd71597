//! How do I choose the store by configuration?
//!
//! `LOCK_URL=sqlite:locks.db cargo run -p examples --bin backend_by_url`, or `LOCK_URL=redis://127.0.0.1:6379`.

use lock_core::{Connectors, LockErrorKind, LockFactory};
use std::{env, error::Error};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Add the connector of each backend.
    let connectors = Connectors::default().with(lock_fred::Redis).with(lock_sqlx::Sqlite);
    println!("known schemes: {}", connectors.schemes().join(", "));

    let url = env::var("LOCK_URL").unwrap_or_else(|_| "memory:".to_owned());
    let store = connectors.connect(&url).await?; // an error here names the remedy
    let locks = LockFactory::new(store);
    let guard = locks.named("stock:42")?.acquire().await?;
    println!("{} is held in the store that LOCK_URL chose, or in memory", guard.name());
    println!("{:?}", guard.release().await);

    // Errors for wrong URLs. They only quote the scheme, since the rest may contain a password.
    for wrong in ["redis://:secret@localhost/first", "carrier-pigeon://coop", "localhost"] {
        let Err(error) = connectors.connect(wrong).await else {
            return Err(format!("{wrong} was accepted").into());
        };
        assert_eq!(error.kind(), LockErrorKind::InvalidUrl);
        assert!(!error.to_string().contains("secret"));
        println!("refused: {error}");
    }
    Ok(())
}
