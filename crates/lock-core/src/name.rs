//! Lock names. They are checked when they are created, so every [`LockName`] is valid.

mod key;
mod names;
mod parts;
mod prefix;
mod rule;
mod template;

pub use key::LockKey;
pub use names::LockNames;
pub use parts::{NameParts, escape};
pub(crate) use prefix::Prefix;
pub use template::{TemplateName, separates};

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
    sync::Arc,
};

/// The prefix for the locks of libraries built on this one.
const RESERVED: &str = "distlock:";

/// The name of a lock. All contenders for a lock use the same name.
///
/// A name is 1 to 512 bytes long, contains no control characters, and does not begin with `redisson_` or
/// `distlock:`. A Redis Cluster hash tag (`stock:{eu}:42`) is accepted if it is complete: either the name has no
/// brace at all, or its first `{` is followed by at least one character and a `}`. Otherwise a lock's keys would be
/// in different slots.
///
/// Cloning is cheap.
///
/// ```
/// use lock_core::{LockName, NameError};
///
/// let name = LockName::new("stock:42")?;
/// assert_eq!(name.as_str(), "stock:42");
/// assert_eq!(LockName::new(""), Err(NameError::Empty));
/// # Ok::<(), NameError>(())
/// ```
#[derive(Clone)]
pub struct LockName(Text);

#[derive(Clone)]
enum Text {
    Static(&'static str),
    Shared(Arc<str>),
}

impl LockName {
    /// The maximum length of a name, in bytes of UTF-8.
    pub const MAX_BYTES: usize = 512;

    /// The prefixes that applications must not use: `redisson_`, under which stores keep their own keys, and
    /// `distlock:`, for locks of libraries built on this one.
    pub const RESERVED_PREFIXES: [&str; 2] = ["redisson_", RESERVED];

    /// Parses `name`.
    ///
    /// # Errors
    /// A [`NameError`] that names the violated rule.
    pub fn new(name: impl AsRef<str>) -> Result<Self, NameError> {
        let name = name.as_ref();
        rule::check(name)?;
        Ok(Self::shared(name))
    }

    /// Creates a name from a static string. It does not allocate, and can be used in constants.
    ///
    /// ```
    /// use lock_core::LockName;
    ///
    /// const REPORT: LockName = LockName::from_static("report");
    /// assert_eq!(REPORT.as_str(), "report");
    /// ```
    ///
    /// # Panics
    /// Panics if the name violates a rule. In a constant, this is a compile error:
    /// ```compile_fail
    /// # use lock_core::LockName;
    /// const REPORT: LockName = LockName::from_static("");
    /// # println!("{REPORT}");
    /// ```
    #[must_use]
    #[track_caller]
    pub const fn from_static(name: &'static str) -> Self {
        match rule::check(name) {
            Ok(()) => Self(Text::Static(name)),
            Err(_) => panic!(
                "not a lock name: use 1 to 512 bytes without control characters, unmatched or empty braces, or the \
                 prefix `redisson_` or `distlock:`"
            ),
        }
    }

    /// Creates a name from a string that has been checked.
    fn shared(name: &str) -> Self {
        Self(Text::Shared(name.into()))
    }

    /// Returns the name `distlock:` + `rest`, which no user's lock can have; for libraries built on this one. `rest`
    /// follows the rules of a name. If each piece of work gets its own name, set a short
    /// [retention](crate::LockOptions::retention), so that the fencing counters do not fill the store.
    ///
    /// # Errors
    /// A [`NameError`] that names the violated rule.
    pub fn reserved(rest: &str) -> Result<Self, NameError> {
        let whole = format!("{RESERVED}{rest}");
        match Self::new(rest)? {
            _ if whole.len() > LockName::MAX_BYTES => Err(NameError::TooLong { bytes: whole.len() }),
            _ => Ok(Self::shared(&whole)),
        }
    }

    /// Returns `true` if the name was created by [`reserved`](Self::reserved).
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        self.as_str().starts_with(RESERVED)
    }

    /// Returns the name as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Text::Static(name) => name,
            Text::Shared(name) => name,
        }
    }
}

/// The reason why a string is not a valid lock name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameError {
    /// The string is empty.
    Empty,
    /// The string is longer than [`LockName::MAX_BYTES`].
    TooLong {
        /// Its length in bytes, including the factory's prefix.
        bytes: usize,
    },
    /// The string contains a control character.
    ControlCharacter {
        /// Its byte offset.
        at: usize,
    },
    /// The string begins with a reserved prefix.
    ReservedPrefix {
        /// The prefix.
        prefix: &'static str,
    },
    /// The string has a brace that is not part of a complete, non-empty hash tag.
    BrokenHashTag,
    /// A part of the name is empty.
    EmptyPart {
        /// The index of the part in the tuple of [`LockName::of`] or among the fields of a template, starting at 0. It
        /// is 0 for [`LockName::part`].
        part: usize,
    },
    /// The [`Display`](fmt::Display) implementation of a part of the name returned an error.
    UnwrittenPart {
        /// The index of the part, as in [`EmptyPart`](Self::EmptyPart).
        part: usize,
    },
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the lock name is empty: use at least one character"),
            Self::TooLong { bytes } => write!(
                f,
                "the lock name is {bytes} bytes long: use at most {}, for example by replacing the long part with a hash",
                LockName::MAX_BYTES
            ),
            Self::ControlCharacter { at } => {
                write!(f, "the lock name contains a control character at byte {at}: remove or encode it")
            }
            Self::ReservedPrefix { prefix } => {
                write!(
                    f,
                    "the lock name begins with the reserved prefix `{prefix}`: put a prefix of your own before it"
                )
            }
            Self::BrokenHashTag => write!(
                f,
                "the lock name contains unmatched or empty braces: use a complete hash tag such as `{{tag}}`, or no braces"
            ),
            Self::EmptyPart { part } => {
                write!(f, "part {part} of the lock name is empty: use at least one character in each part")
            }
            Self::UnwrittenPart { part } => {
                write!(f, "part {part} of the lock name could not be formatted: check its `Display`")
            }
        }
    }
}

impl std::error::Error for NameError {}

impl From<std::convert::Infallible> for NameError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

impl PartialEq for LockName {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for LockName {}

impl PartialOrd for LockName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for LockName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for LockName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl FromStr for LockName {
    type Err = NameError;
    fn from_str(name: &str) -> Result<Self, NameError> {
        Self::new(name)
    }
}

impl TryFrom<&str> for LockName {
    type Error = NameError;
    fn try_from(name: &str) -> Result<Self, NameError> {
        Self::new(name)
    }
}

impl TryFrom<String> for LockName {
    type Error = NameError;
    fn try_from(name: String) -> Result<Self, NameError> {
        Self::new(name)
    }
}

impl TryFrom<&String> for LockName {
    type Error = NameError;
    fn try_from(name: &String) -> Result<Self, NameError> {
        Self::new(name)
    }
}

impl From<&LockName> for LockName {
    fn from(name: &LockName) -> Self {
        name.clone()
    }
}

impl AsRef<str> for LockName {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

    #[test]
    fn ordinary_names_and_complete_hash_tags_are_accepted() {
        let longest = "n".repeat(LockName::MAX_BYTES);
        for name in ["a", "stock:42", "{tag}", "a{b}c", "a{b}}c", "a{b}{", "Größe:ü", "{{x}", &longest] {
            assert!(LockName::new(name).is_ok(), "{name} is a good name");
        }
    }

    #[test]
    fn static_names_equal_others() {
        const NAME: LockName = LockName::from_static("stock:42");
        let other = LockName::new("stock:42").unwrap();
        let hash = |name: &LockName| BuildHasherDefault::<DefaultHasher>::default().hash_one(name);
        assert_eq!((&NAME, hash(&NAME)), (&other, hash(&other)));
        assert_eq!(NAME.cmp(&other), Ordering::Equal);
        assert!(NAME < LockName::from_static("stock:43"));
    }

    #[test]
    fn reserved_names_are_separate_from_user_names() {
        let name = LockName::reserved("run:{billing}:invoices:1").unwrap();
        assert_eq!(name.as_str(), "distlock:run:{billing}:invoices:1");
        assert!(name.is_reserved() && !LockName::new("run").unwrap().is_reserved());
        assert_eq!(LockName::new(name.as_str()), Err(NameError::ReservedPrefix { prefix: "distlock:" }));
        assert_eq!(LockName::reserved("a}"), Err(NameError::BrokenHashTag));
        let long = "n".repeat(LockName::MAX_BYTES);
        assert_eq!(LockName::reserved(&long), Err(NameError::TooLong { bytes: LockName::MAX_BYTES + 9 }));
    }

    #[test]
    fn names_that_would_harm_a_store_are_refused_with_a_remedy() {
        let long = "n".repeat(LockName::MAX_BYTES + 1);
        let cases = [
            ("", NameError::Empty, "at least one"),
            (long.as_str(), NameError::TooLong { bytes: 513 }, "at most 512"),
            ("a\nb", NameError::ControlCharacter { at: 1 }, "remove or encode"),
            ("a\u{85}", NameError::ControlCharacter { at: 1 }, "remove or encode"),
            ("a{", NameError::BrokenHashTag, "complete hash tag"),
            ("a{}b", NameError::BrokenHashTag, "complete hash tag"),
            ("a}b", NameError::BrokenHashTag, "complete hash tag"),
            ("a}{b}", NameError::BrokenHashTag, "complete hash tag"),
            (
                "redisson_lock_token:{a}",
                NameError::ReservedPrefix { prefix: "redisson_" },
                "prefix of your own",
            ),
            ("distlock:x", NameError::ReservedPrefix { prefix: "distlock:" }, "prefix of your own"),
        ];
        for (name, error, cure) in cases {
            assert_eq!(LockName::new(name), Err(error.clone()));
            assert!(error.to_string().contains(cure), "{error} says what to do");
        }
    }
}
