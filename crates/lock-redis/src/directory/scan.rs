//! The search for locks on one server, page by page.

use crate::{
    client::{Client, Command, Reply},
    error::{RequestError, unexpected_reply},
    shared::Shared,
};
use lock_core::LockName;
use std::collections::BTreeSet;

/// The number of keys that the server reads per page. It serves other requests between two pages.
const KEYS_PER_PAGE: u32 = 1000;

const WHAT: &str = "list locks";

/// The names found so far, on all servers.
pub(super) struct Found {
    pub(super) names: BTreeSet<LockName>,
    max: usize,
    /// The number of pages read.
    pub(super) pages: u64,
    /// Set once there are more names than the limit.
    pub(super) is_full: bool,
}

impl Found {
    pub(super) fn at_most(max: usize) -> Self {
        Self { names: BTreeSet::new(), max, pages: 0, is_full: false }
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
pub(super) fn pattern(prefix: &str) -> String {
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

/// Searches all keys of a server, or stops once enough names are found.
pub(super) async fn search<C: Client>(
    server: &Shared<C>,
    pattern: &str,
    found: &mut Found,
) -> Result<(), RequestError> {
    let mut cursor = "0".to_owned();
    while !found.is_full {
        let page = Command::scan_hashes(cursor, pattern.to_owned(), KEYS_PER_PAGE);
        let Reply::List(parts) = server.direct().call(WHAT, page).await? else {
            return Err(unexpected_reply(WHAT));
        };
        let [next, Reply::List(keys)] = parts.as_slice() else { return Err(unexpected_reply(WHAT)) };
        found.pages += 1;
        keys.iter().for_each(|key| found.add(key));
        cursor = next.text().ok_or_else(|| unexpected_reply(WHAT))?.to_owned();
        if cursor == "0" {
            break;
        }
    }
    Ok(())
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
