//! The names of a key: one, or several that are locked together.

use super::LockName;

/// The names that a [`LockKey`](crate::LockKey) locks: one name, or several that are acquired together.
///
/// Several names are sorted, and duplicates are removed. An acquire fails if there are no names, or more than
/// [`LockSet::MAX_MEMBERS`](crate::set::LockSet::MAX_MEMBERS).
///
/// ```
/// use lock_core::{LockFactory, LockName, MemoryBackend, NameError, names::LockNames};
///
/// let lines = ["b", "a", "b"]; // of an order
/// let names: LockNames = lines.iter().map(|sku| LockName::of(("stock", sku))).collect::<Result<_, _>>()?;
/// assert_eq!(names.iter().map(LockName::as_str).collect::<Vec<_>>(), ["stock:a", "stock:b"]);
///
/// let locks = LockFactory::new(MemoryBackend::new());
/// let set = locks.all(names); // the locks that a route has under this key
/// # assert!(set.is_ok());
/// # Ok::<(), NameError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockNames(Names);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Names {
    One(LockName),
    /// Sorted, without duplicates.
    Several(Vec<LockName>),
}

impl LockNames {
    /// Returns an iterator over the names, sorted.
    pub fn iter(&self) -> std::slice::Iter<'_, LockName> {
        self.as_slice().iter()
    }

    /// Returns the name of a key with a single name, and `None` for a key of several names, even if they are equal.
    #[must_use]
    pub fn single(&self) -> Option<&LockName> {
        match &self.0 {
            Names::One(name) => Some(name),
            Names::Several(_) => None,
        }
    }

    /// Returns the names, sorted.
    #[must_use]
    pub fn as_slice(&self) -> &[LockName] {
        match &self.0 {
            Names::One(name) => std::slice::from_ref(name),
            Names::Several(names) => names,
        }
    }
}

impl From<LockName> for LockNames {
    fn from(name: LockName) -> Self {
        Self(Names::One(name))
    }
}

impl FromIterator<LockName> for LockNames {
    /// Creates a key of several names, even if there is only one name.
    fn from_iter<I: IntoIterator<Item = LockName>>(names: I) -> Self {
        let mut names: Vec<_> = names.into_iter().collect();
        names.sort_unstable();
        names.dedup();
        Self(Names::Several(names))
    }
}

impl IntoIterator for LockNames {
    type Item = LockName;
    type IntoIter = std::vec::IntoIter<LockName>;

    fn into_iter(self) -> Self::IntoIter {
        match self.0 {
            Names::One(name) => vec![name].into_iter(),
            Names::Several(names) => names.into_iter(),
        }
    }
}

impl<'a> IntoIterator for &'a LockNames {
    type Item = &'a LockName;
    type IntoIter = std::slice::Iter<'a, LockName>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
