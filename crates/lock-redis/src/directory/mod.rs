//! Process cards and the list of held locks, on Redis.
//!
//! Both use plain commands, because the permissions for scripts are checked when connecting and these
//! features are optional. A command fails if its slot is moving; the card is written again with its
//! next renewal.

mod card;
mod scan;

use crate::{
    backend::RedisBackend,
    client::{Client, Command, Reply},
    error::{RequestError, unserved},
    keys,
};
use async_trait::async_trait;
use lock_core::{
    backend::{Applied, BackendError, BackendErrorKind, Directory, ProcessId},
    inspect::{ListLimits, Listing, ProcessCard},
};
use scan::Found;
use std::time::Duration;
use tokio::time::timeout;

#[async_trait]
impl<C: Client> Directory for RedisBackend<C> {
    async fn write_card(
        &self,
        process: ProcessId,
        card: ProcessCard,
        ttl: Duration,
    ) -> Result<(), BackendError> {
        let key = keys::card(process);
        let command = Command::set(key.clone(), card::write(&card), ttl);
        self.call_at(&key, "write a process card", command).await?;
        Ok(())
    }

    async fn remove_card(&self, process: ProcessId) -> Result<(), BackendError> {
        let key = keys::card(process);
        self.call_at(&key, "remove a process card", Command::del(key.clone())).await?;
        Ok(())
    }

    async fn read_card(&self, process: ProcessId) -> Result<Option<ProcessCard>, BackendError> {
        let key = keys::card(process);
        // Reads one byte more than a card can have, to detect one that is too long.
        let command = Command::get_start(key.clone(), card::MAX_BYTES + 1);
        match self.call_at(&key, "read a process card", command).await {
            Ok(Reply::Bytes(bytes)) => Ok(card::read(&bytes)),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == BackendErrorKind::WrongType => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn list(&self, prefix: String, limits: ListLimits) -> Result<Listing, BackendError> {
        let pattern = scan::pattern(&prefix);
        let mut found = Found::at_most(limits.names());
        let search = async {
            for server in self.route("list locks").await?.servers() {
                scan::search(&server, &pattern, &mut found).await?;
            }
            Ok::<_, RequestError>(())
        };
        let is_late = match timeout(limits.time(), search).await {
            Ok(searched) => {
                searched?;
                false
            }
            Err(_) if found.pages == 0 => {
                let message = format!("failed to list locks on redis: no reply within {:?}", limits.time());
                return Err(BackendError::new(BackendErrorKind::Timeout, Applied::No, message));
            }
            Err(_) => true,
        };
        Ok(Listing::new(found.names, is_late || found.is_full))
    }
}

impl<C: Client> RedisBackend<C> {
    async fn call_at(&self, key: &str, what: &str, command: Command) -> Result<Reply, RequestError> {
        let server = self.route(what).await?.server_of(key).ok_or_else(|| unserved(what))?;
        server.direct().call(what, command).await
    }
}
