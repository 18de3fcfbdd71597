//! Values that name their locks: a key has one name, or several that are locked together.

use super::{LockName, NameError};

/// A value that provides the name of its lock, or the names of several locks.
///
/// With the feature `macros`, it can be derived from templates. `{sku}` is a field, `{0}` a field of a tuple struct,
/// and `{item.sku}` a field of a field; each is formatted with `Display` and percent-encoded like the parts of
/// [`LockName::of`]. `{{` and `}}` stand for literal braces. Several templates name several locks, which are acquired
/// together.
///
/// ```
/// # #[cfg(feature = "macros")] {
/// use lock_core::{LockKey, LockName};
///
/// #[derive(LockKey)]
/// #[lock_key("stock:{sku}")]
/// struct NewOrder {
///     sku: u64,
///     count: u32,
/// }
///
/// #[derive(LockKey)]
/// #[lock_key("account:{from}", "account:{to}")]
/// struct Transfer {
///     from: u64,
///     to: u64,
/// }
///
/// let order = NewOrder { sku: 7, count: 1 };
/// assert_eq!(order.lock_names().unwrap(), LockName::of(("stock", 7)).unwrap().into());
/// let transfer = Transfer { from: 2, to: 1 };
/// assert_eq!(transfer.lock_names().unwrap().as_slice(), ["account:1", "account:2"].map(LockName::from_static));
/// # drop(order.count);
/// # }
/// ```
///
/// Two values have the same name if and only if their fields have the same text. Text is not normalised: a field with
/// several spellings of one value should have a type that parses it, such as an integer or a UUID.
///
/// Implement the trait by hand for keys that no template can express:
/// ```
/// use lock_core::{LockKey, LockName, NameError, names::LockNames};
///
/// struct Cart {
///     lines: Vec<String>,
/// }
///
/// impl LockKey for Cart {
///     fn lock_names(&self) -> Result<LockNames, NameError> {
///         self.lines.iter().map(|sku| LockName::of(("stock", sku))).collect()
///     }
/// }
/// # assert_eq!(Cart { lines: vec!["a".to_owned()] }.lock_names().unwrap().iter().len(), 1);
/// ```
pub trait LockKey {
    /// Returns the names of this value's locks.
    ///
    /// # Errors
    /// A [`NameError`] if a field's text is empty, or a name is too long or begins with a reserved prefix.
    fn lock_names(&self) -> Result<LockNames, NameError>;
}

impl<K: LockKey + ?Sized> LockKey for &K {
    fn lock_names(&self) -> Result<LockNames, NameError> {
        (**self).lock_names()
    }
}

impl LockKey for LockName {
    fn lock_names(&self) -> Result<LockNames, NameError> {
        Ok(self.clone().into())
    }
}

/// The names that a [`LockKey`] locks: one name, or several that are acquired together.
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
