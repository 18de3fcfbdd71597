//! How a key is wrong: as it was written (when the layer is built), or for one request.

use lock_core::{LockName, NameError};
use std::{borrow::Cow, error::Error, fmt};

/// Why a text or a set of parts cannot be a key; found when the layer is built.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidKey {
    /// A `{` without its `}`, or a `}` without its `{`.
    UnpairedBrace {
        /// The byte where it stands.
        at: usize,
    },
    /// The name of a parameter is missing, or cannot be one.
    BadPlaceholder {
        /// The byte where it stands.
        at: usize,
    },
    /// Nothing between two parameters tells where one ends and the next begins.
    NoSeparator {
        /// The byte where the second begins.
        at: usize,
    },
    /// A type was given for a parameter that the template does not have.
    UnknownParameter {
        /// The name that was given.
        name: String,
    },
    /// A path parameter, without the feature `axum`.
    NeedsAxum,
    /// This is no name of a header.
    Header {
        /// What was given.
        name: String,
    },
    /// The fixed parts do not make a lock name.
    Name(NameError),
}

impl fmt::Display for InvalidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnpairedBrace { at } => {
                write!(
                    f,
                    "the key has an unpaired brace at byte {at}: write `{{name}}`, or `{{{{` for a brace"
                )
            }
            Self::BadPlaceholder { at } => write!(
                f,
                "the key has a bad parameter at byte {at}: name it as the route does, such as `{{sku}}`, without `*`"
            ),
            Self::NoSeparator { at } => write!(
                f,
                "nothing separates the key's parameter at byte {at} from the one before: put a character such as \
                 `:` or `/` between, that is no letter, digit, `-`, `_`, `.`, `~` or `%`"
            ),
            Self::UnknownParameter { name } => {
                write!(f, "the template has no parameter `{name}` to be typed: name one that it has")
            }
            Self::NeedsAxum => write!(
                f,
                "the key has a path parameter: turn on the feature `axum` of lock-tower, or use `KeyTemplate::from_fn`"
            ),
            Self::Header { name } => {
                write!(f, "`{name}` is not the name of a header: use letters, digits and `-`")
            }
            Self::Name(cause) if f.alternate() => {
                write!(f, "the fixed parts of the key do not make a lock name: {cause}")
            }
            Self::Name(_) => write!(f, "the fixed parts of the key do not make a lock name"),
        }
    }
}

impl Error for InvalidKey {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Name(error) => Some(error),
            _ => None,
        }
    }
}

impl From<std::convert::Infallible> for InvalidKey {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

/// Why a request has no key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyError {
    kind: KeyErrorKind,
    detail: Cow<'static, str>,
    /// Whether every request of the route fails in the same way.
    of_template: bool,
}

/// The kinds of [`KeyError`], by who can fix them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeyErrorKind {
    /// The client left out a part of the key. Answered with 400; [`OnBadKey::Allow`](crate::OnBadKey::Allow) passes the
    /// request through.
    Missing,
    /// A part of the key is malformed, ambiguous or too long; the client can fix it. Answered with 400.
    BadRequest,
    /// The layer is in the wrong place, or another one is missing; the programmer can fix it. Answered with 500.
    Misconfigured,
    /// The source of the key did not answer. Answered with 503.
    Unavailable,
}

impl KeyError {
    /// Creates an error for a part of the key that the client left out. `detail` is shown to the client.
    pub fn missing(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(KeyErrorKind::Missing, detail)
    }

    /// Creates an error for a part of the key that is wrong and that the client can fix. `detail` is shown to the client.
    pub fn bad_request(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(KeyErrorKind::BadRequest, detail)
    }

    /// Creates an error that the programmer has to fix. `detail` is logged and not shown to the client.
    pub fn misconfigured(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(KeyErrorKind::Misconfigured, detail)
    }

    /// Creates an error for a source of the key that did not answer. `detail` is logged and not shown to the client.
    pub fn unavailable(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(KeyErrorKind::Unavailable, detail)
    }

    fn new(kind: KeyErrorKind, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, detail: detail.into(), of_template: false }
    }

    /// Creates an error for a template that does not fit the route.
    #[cfg(feature = "axum")]
    pub(super) fn template(detail: impl Into<Cow<'static, str>>) -> Self {
        Self { of_template: true, ..Self::misconfigured(detail) }
    }

    pub(crate) fn is_of_template(&self) -> bool {
        self.of_template
    }

    /// Returns who can fix it.
    #[must_use]
    pub fn kind(&self) -> KeyErrorKind {
        self.kind
    }

    /// Returns the description of what is wrong.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the request has no key: {}", self.detail)
    }
}

impl Error for KeyError {}

/// What was read is checked as a name. The parts of ours were checked before, so what is wrong is the client's.
pub(super) fn name(text: &str) -> Result<LockName, KeyError> {
    LockName::new(text).map_err(|error| {
        KeyError::bad_request(match error {
            NameError::Empty => "it is empty",
            NameError::TooLong { .. } => "it is too long",
            NameError::ReservedPrefix { .. } => "it begins with a word that is reserved",
            _ => "it has characters that a key must not have",
        })
    })
}
