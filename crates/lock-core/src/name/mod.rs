//! Lock names and their rules. They are checked when they are created, so every [`LockName`] is valid.

mod key;
mod parts;

pub use key::{LockKey, LockNames};
pub use parts::{NameParts, TemplateName, escape, separates};

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
    sync::Arc,
};

/// The prefix for the locks of libraries built on this one.
const RESERVED: &str = "distlock:";

/// The beginnings of reserved names that stay in front of a factory's prefix: those of pools. A slash cannot occur in a
/// prefix, so no other reserved name begins with one of them.
const HEADS: [&str; 3] = [PoolKind::Semaphore.head(), PoolKind::RwLock.head(), PoolKind::Fair.head()];

/// A kind of pool. Each kind has names of its own, which differ from those of locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PoolKind {
    Semaphore,
    RwLock,
    Fair,
}

impl PoolKind {
    /// Returns the beginning of the names of its pools.
    pub(crate) const fn head(self) -> &'static str {
        match self {
            Self::Semaphore => "distlock:semaphore/",
            Self::RwLock => "distlock:rwlock/",
            Self::Fair => "distlock:fair/",
        }
    }

    /// Returns the name of a pool of this kind that the user calls `name`.
    pub(crate) fn named(self, name: &LockName) -> Result<LockName, NameError> {
        let whole = [self.head(), name.as_str()].concat();
        match whole.len() {
            bytes if bytes > LockName::MAX_BYTES => Err(NameError::TooLong { bytes }),
            _ => Ok(LockName::shared(&whole)),
        }
    }
}

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
        check(name)?;
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
        match check(name) {
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

    /// Returns `true` if the name was created by [`reserved`].
    pub(crate) fn is_reserved(&self) -> bool {
        self.as_str().starts_with(RESERVED)
    }

    /// Returns `true` if this is the name of a pool (a [semaphore](crate::permit) and the like), whose permits stores keep
    /// apart from locks. Applications have no such names: factories make them.
    #[must_use]
    pub fn is_pool(&self) -> bool {
        HEADS.iter().any(|head| self.as_str().starts_with(head))
    }

    /// Returns the noun for what has this name, and the name that the user gave it.
    pub(crate) fn noun(&self) -> (&'static str, &str) {
        match self.split_head() {
            (head, rest) if head == PoolKind::Semaphore.head() => ("semaphore", rest),
            (head, rest) if head == PoolKind::RwLock.head() => ("read-write lock", rest),
            (head, rest) if head == PoolKind::Fair.head() => ("fair lock", rest),
            _ => ("lock", self.as_str()),
        }
    }

    /// Splits off the beginning of a reserved name, which stays in front of a factory's prefix.
    fn split_head(&self) -> (&'static str, &str) {
        let heads = HEADS.into_iter().chain([RESERVED]);
        let split = |head: &'static str| Some((head, self.as_str().strip_prefix(head)?));
        heads.filter_map(split).next().unwrap_or(("", self.as_str()))
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

/// Returns the name `distlock:` + `rest`, which no user's lock can have; for libraries built on this one. `rest`
/// follows the rules of a name. If each piece of work gets its own name, set a short
/// [retention](crate::LockOptions::retention), so that the fencing counters do not fill the store.
///
/// # Errors
/// A [`NameError`] that names the violated rule.
pub fn reserved(rest: &str) -> Result<LockName, NameError> {
    let whole = format!("{RESERVED}{rest}");
    match LockName::new(rest)? {
        _ if whole.len() > LockName::MAX_BYTES => Err(NameError::TooLong { bytes: whole.len() }),
        _ => Ok(LockName::shared(&whole)),
    }
}

/// Returns the name of the pool of a semaphore that users call `name`, for tests of stores.
///
/// # Errors
/// [`NameError::TooLong`].
pub fn semaphore_name(name: &LockName) -> Result<LockName, NameError> {
    PoolKind::Semaphore.named(name)
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

/// The prefix that a factory adds to its names in the store: a word of `A–Z a–z 0–9 - _ .`, and a colon. No word
/// contains a colon, so names under two prefixes differ.
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
        let (head, rest) = name.split_head();
        LockName::shared(&[head, &self.0, rest].concat())
    }

    /// Adds the prefix to `start`, the beginning of some names.
    pub(crate) fn stored_start(&self, start: &str) -> String {
        [&*self.0, start].concat()
    }

    /// Returns the name that is stored as `stored`; `None` if `stored` does not have this prefix.
    pub(crate) fn unstored(&self, stored: &LockName) -> Option<LockName> {
        let (head, rest) = stored.split_head();
        Some(LockName::shared(&[head, rest.strip_prefix(&*self.0)?].concat()))
    }
}

/// Checks `name`, and returns the first rule that it violates as an error. It is constant for
/// [`LockName::from_static`], so it reads bytes.
const fn check(name: &str) -> Result<(), NameError> {
    let name = name.as_bytes();
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > LockName::MAX_BYTES {
        return Err(NameError::TooLong { bytes: name.len() });
    }
    if let Some(at) = control_character(name) {
        return Err(NameError::ControlCharacter { at });
    }
    let mut next = 0;
    while next < LockName::RESERVED_PREFIXES.len() {
        let prefix = LockName::RESERVED_PREFIXES[next];
        if starts_with(name, prefix.as_bytes()) {
            return Err(NameError::ReservedPrefix { prefix });
        }
        next += 1;
    }
    match has_whole_hash_tag(name) {
        true => Ok(()),
        false => Err(NameError::BrokenHashTag),
    }
}

/// Returns the byte offset of the first character for which [`char::is_control`] is true: U+0000 to U+001F, U+007F, and
/// U+0080 to U+009F, whose first byte in UTF-8 is C2.
const fn control_character(name: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < name.len() {
        let is_control = match name[at] {
            0..=0x1F | 0x7F => true,
            0xC2 => name[at + 1] < 0xA0,
            _ => false,
        };
        if is_control {
            return Some(at);
        }
        at += 1;
    }
    None
}

const fn starts_with(name: &[u8], prefix: &[u8]) -> bool {
    matches!(name.split_at_checked(prefix.len()), Some((begin, _)) if are_equal(begin, prefix))
}

const fn are_equal(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// Returns `true` if the name has no brace, or its first `{` is followed by a non-empty tag and `}`.
const fn has_whole_hash_tag(name: &[u8]) -> bool {
    match (find(name, b'{'), find(name, b'}')) {
        (None, None) => true,
        (Some(open), Some(close)) => close > open + 1,
        _ => false,
    }
}

const fn find(name: &[u8], byte: u8) -> Option<usize> {
    let mut at = 0;
    while at < name.len() {
        if name[at] == byte {
            return Some(at);
        }
        at += 1;
    }
    None
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
        let name = reserved("run:{billing}:invoices:1").unwrap();
        assert_eq!(name.as_str(), "distlock:run:{billing}:invoices:1");
        assert!(name.is_reserved() && !LockName::new("run").unwrap().is_reserved());
        assert_eq!(LockName::new(name.as_str()), Err(NameError::ReservedPrefix { prefix: "distlock:" }));
        assert_eq!(reserved("a}"), Err(NameError::BrokenHashTag));
        let long = "n".repeat(LockName::MAX_BYTES);
        assert_eq!(reserved(&long), Err(NameError::TooLong { bytes: LockName::MAX_BYTES + 9 }));
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

    #[test]
    fn control_characters_are_those_of_unicode() {
        for c in (0..=u32::from(char::MAX)).filter_map(char::from_u32) {
            let mut buffer = [0; 4];
            let found = control_character(c.encode_utf8(&mut buffer).as_bytes());
            assert_eq!(found, c.is_control().then_some(0), "{c:?}");
        }
        assert_eq!(control_character("aÂ\u{80}".as_bytes()), Some(3));
    }

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
        let of_library = reserved("run:{a}").unwrap();
        for (name, stored) in [
            (LockName::from_static("{eu}:x"), "shop:{eu}:x"),
            (LockName::from_static("shop:x"), "shop:shop:x"),
            (of_library, "distlock:shop:run:{a}"),
            (PoolKind::Fair.named(&LockName::from_static("x")).unwrap(), "distlock:fair/shop:x"),
        ] {
            assert_eq!(prefix.stored(&name).as_str(), stored);
            assert_eq!(prefix.unstored(&prefix.stored(&name)), Some(name));
        }
        for other in ["x", "shop", "shops:x"] {
            assert_eq!(prefix.unstored(&LockName::from_static(other)), None, "{other}");
        }
        assert_eq!(prefix.unstored(&reserved("run").unwrap()), None);
    }

    #[test]
    fn names_of_pools_differ_from_all_others() {
        let name = LockName::from_static("{eu}:x");
        let pools =
            [PoolKind::Semaphore, PoolKind::RwLock, PoolKind::Fair].map(|kind| kind.named(&name).unwrap());
        assert_eq!(pools[0].as_str(), "distlock:semaphore/{eu}:x");
        assert!(pools.iter().all(|pool| pool.is_pool() && pool.is_reserved()));
        assert!(pools[0] != pools[1] && pools[1] != pools[2]);
        // Neither a user's name nor a prefix makes one.
        assert!(LockName::new(pools[0].as_str()).is_err() && Prefix::new("semaphore/").is_none());
        assert!(!name.is_pool() && !reserved("semaphore").unwrap().is_pool());
        let long = LockName::new("n".repeat(LockName::MAX_BYTES)).unwrap();
        assert!(matches!(PoolKind::Fair.named(&long), Err(NameError::TooLong { .. })));
    }

    #[test]
    fn prefix_counts_towards_the_longest_name() {
        let prefix = Prefix::new("shop").unwrap();
        assert_eq!(prefix.check(&LockName::new("x".repeat(507)).unwrap()), Ok(()));
        let long = LockName::new("x".repeat(508)).unwrap();
        assert_eq!(prefix.check(&long), Err(NameError::TooLong { bytes: 513 }));
    }
}
