//! The prefix that a factory adds to its names in the store.

use super::{LockName, NameError, RESERVED};
use std::sync::Arc;

/// A word of `A–Z a–z 0–9 - _ .`, and a colon. No word contains a colon, so names under two prefixes differ.
#[derive(Debug, Clone)]
pub(crate) struct Prefix(Arc<str>);

impl Prefix {
    /// The length of the longest word. It leaves most of a name to the application.
    pub(crate) const MAX_BYTES: usize = 64;

    /// Parses a word. Returns `None` if it is not valid, or if names under it would be reserved.
    pub(crate) fn new(word: &str) -> Option<Self> {
        let is_word =
            !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        let prefix = format!("{word}:");
        let is_good = is_word && word.len() <= Self::MAX_BYTES && LockName::new(&prefix).is_ok();
        is_good.then(|| Self(prefix.into()))
    }

    /// Checks that the stored name is not too long.
    pub(crate) fn check(&self, name: &LockName) -> Result<(), NameError> {
        match self.0.len() + name.as_str().len() {
            bytes if bytes > LockName::MAX_BYTES => Err(NameError::TooLong { bytes }),
            _ => Ok(()),
        }
    }

    /// Returns the name in the store. A reserved name is reserved in the store, too.
    pub(crate) fn stored(&self, name: &LockName) -> LockName {
        let prefix = &*self.0;
        LockName::shared(&match name.as_str().strip_prefix(RESERVED) {
            Some(rest) => [RESERVED, prefix, rest].concat(),
            None => [prefix, name.as_str()].concat(),
        })
    }

    /// Adds the prefix to `start`, the beginning of some names.
    pub(crate) fn stored_start(&self, start: &str) -> String {
        [&*self.0, start].concat()
    }

    /// Returns the name that is stored as `stored`; `None` if `stored` does not have this prefix.
    pub(crate) fn unstored(&self, stored: &LockName) -> Option<LockName> {
        let prefix = &*self.0;
        Some(match stored.as_str().strip_prefix(RESERVED) {
            Some(rest) => LockName::shared(&[RESERVED, rest.strip_prefix(prefix)?].concat()),
            None => LockName::shared(stored.as_str().strip_prefix(prefix)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_is_one_word() {
        let longest = "x".repeat(Prefix::MAX_BYTES);
        for word in ["a", "shop-prod", "A_1.b", "distlock2", "redisson", &longest] {
            assert!(Prefix::new(word).is_some(), "{word}");
        }
        let long = "x".repeat(Prefix::MAX_BYTES + 1);
        for word in ["", "a:b", "a b", "a{b}", "ä", "a\n", "distlock", "redisson_x", &long] {
            assert!(Prefix::new(word).is_none(), "{word}");
        }
    }

    #[test]
    fn stored_names_are_read_back() {
        let prefix = Prefix::new("shop").unwrap();
        let reserved = LockName::reserved("run:{a}").unwrap();
        for (name, stored) in [
            (LockName::from_static("{eu}:x"), "shop:{eu}:x"),
            (LockName::from_static("shop:x"), "shop:shop:x"),
            (reserved, "distlock:shop:run:{a}"),
        ] {
            assert_eq!(prefix.stored(&name).as_str(), stored);
            assert_eq!(prefix.unstored(&prefix.stored(&name)), Some(name));
        }
        for other in ["x", "shop", "shops:x"] {
            assert_eq!(prefix.unstored(&LockName::from_static(other)), None, "{other}");
        }
        assert_eq!(prefix.unstored(&LockName::reserved("run").unwrap()), None);
    }

    #[test]
    fn prefix_counts_towards_the_longest_name() {
        let prefix = Prefix::new("shop").unwrap();
        assert_eq!(prefix.check(&LockName::new("x".repeat(507)).unwrap()), Ok(()));
        let long = LockName::new("x".repeat(508)).unwrap();
        assert_eq!(prefix.check(&long), Err(NameError::TooLong { bytes: 513 }));
    }
}
