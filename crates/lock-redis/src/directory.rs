//! Process cards and the list of held locks, on Redis.
//!
//! Both use plain commands, because the permissions for scripts are checked when connecting and these
//! features are optional. A command fails if its slot is moving; the card is written again with its
//! next renewal.

use crate::{
    backend::RedisBackend,
    client::{Client, Command, Reply},
    error::{RequestError, unexpected_reply, unserved},
    keys,
    shared::Shared,
};
use async_trait::async_trait;
use lock_core::{
    __private::{MAX_CARD_BYTES, decode_card, encode_card},
    LockName,
    backend::{Applied, BackendError, BackendErrorKind, Directory, ProcessId},
    inspect::{ListLimits, Listing, ProcessCard},
};
use std::{collections::BTreeSet, time::Duration};
use tokio::time::timeout;

/// The number of keys that the server reads per page. It serves other requests between two pages.
const KEYS_PER_PAGE: u32 = 1000;

/// The phrase that names a search in errors.
const SEARCH: &str = "list locks";

#[async_trait]
impl<C: Client> Directory for RedisBackend<C> {
    async fn write_card(
        &self,
        process: ProcessId,
        card: ProcessCard,
        ttl: Duration,
    ) -> Result<(), BackendError> {
        let key = keys::card(process);
        let command = Command::set(key.clone(), encode_card(&card), ttl);
        call_at(self, &key, "write a process card", command).await?;
        Ok(())
    }

    async fn remove_card(&self, process: ProcessId) -> Result<(), BackendError> {
        let key = keys::card(process);
        call_at(self, &key, "remove a process card", Command::del(key.clone())).await?;
        Ok(())
    }

    async fn read_card(&self, process: ProcessId) -> Result<Option<ProcessCard>, BackendError> {
        let key = keys::card(process);
        // Reads one byte more than a card can have, to detect one that is too long.
        let command = Command::get_start(key.clone(), MAX_CARD_BYTES + 1);
        match call_at(self, &key, "read a process card", command).await {
            Ok(Reply::Bytes(bytes)) => Ok(decode_card(&bytes)),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == BackendErrorKind::WrongType => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn list(&self, prefix: String, limits: ListLimits) -> Result<Listing, BackendError> {
        let pattern = pattern(&prefix);
        let mut found = Found::at_most(limits.names());
        let search = async {
            for server in self.route(SEARCH).await?.servers() {
                found.search(&server, &pattern).await?;
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

/// Sends a command to the server that serves this key.
async fn call_at<C: Client>(
    redis: &RedisBackend<C>,
    key: &str,
    what: &str,
    command: Command,
) -> Result<Reply, RequestError> {
    let server = redis.route(what).await?.server_of(key).ok_or_else(|| unserved(what))?;
    server.direct().call(what, command).await
}

/// The names found so far, on all servers.
struct Found {
    names: BTreeSet<LockName>,
    max: usize,
    /// The number of pages read.
    pages: u64,
    /// Set once there are more names than the limit.
    is_full: bool,
}

impl Found {
    fn at_most(max: usize) -> Self {
        Self { names: BTreeSet::new(), max, pages: 0, is_full: false }
    }

    /// Searches all keys of a server, or stops once enough names are found.
    async fn search<C: Client>(&mut self, server: &Shared<C>, pattern: &str) -> Result<(), RequestError> {
        let mut cursor = "0".to_owned();
        while !self.is_full {
            let page = Command::scan_hashes(cursor, pattern.to_owned(), KEYS_PER_PAGE);
            let Reply::List(parts) = server.direct().call(SEARCH, page).await? else {
                return Err(unexpected_reply(SEARCH));
            };
            let [next, Reply::List(keys)] = parts.as_slice() else { return Err(unexpected_reply(SEARCH)) };
            self.pages += 1;
            keys.iter().for_each(|key| self.add(key));
            cursor = next.text().ok_or_else(|| unexpected_reply(SEARCH))?.to_owned();
            if cursor == "0" {
                break;
            }
        }
        Ok(())
    }

    fn add(&mut self, key: &Reply) {
        // A key that is not a valid lock name belongs to something else.
        let Some(name) = key.text().and_then(|key| LockName::new(key).ok()) else { return };
        if self.names.contains(&name) {
            return;
        }
        match self.names.len() < self.max {
            true => drop(self.names.insert(name)),
            false => self.is_full = true,
        }
    }
}

/// Returns the pattern for the names that begin with `prefix`.
fn pattern(prefix: &str) -> String {
    let mut pattern = String::with_capacity(prefix.len() + 1);
    for c in prefix.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '^' | '-' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('*');
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_matches_the_literal_prefix_only() {
        assert_eq!(pattern("stock:"), "stock:*");
        assert_eq!(pattern(""), "*");
        assert_eq!(pattern(r"a*b?[c-d]^\"), r"a\*b\?\[c\-d\]\^\\*");
    }

    #[test]
    fn keys_that_are_not_locks_are_omitted() {
        let mut found = Found::at_most(2);
        let key = |key: &'static str| Reply::Bytes(key.into());
        for text in ["distlock:ledger:2:job:{a}:b", "redisson_x", "a}{b", "b", "a", "b"] {
            found.add(&key(text));
        }
        found.add(&Reply::Bytes(b"\xff"[..].into()));
        found.add(&Reply::Nil);
        assert!(!found.is_full, "a name found twice counts once");
        assert_eq!(found.names.iter().map(LockName::as_str).collect::<Vec<_>>(), ["a", "b"]);
        found.add(&key("c"));
        assert!(found.is_full);
        assert_eq!(found.names.len(), 2);
    }
}
