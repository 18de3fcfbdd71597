//! Values that name their locks.

use super::{LockName, LockNames, NameError};

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
