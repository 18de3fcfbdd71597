//! Errors in key rules, detected when the layer is built, and in the keys of individual requests.

use lock_core::NameError;
use std::{borrow::Cow, error::Error, fmt};

/// An error in a key template or in a key's parts, detected when the layer is built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidKey {
    /// The text contains an unmatched `{` or `}`.
    #[error(
        "the key contains an unmatched brace at byte {at}: use `{{name}}`, or `{{{{` for a literal brace"
    )]
    UnmatchedBrace {
        /// The byte offset of the brace.
        at: usize,
    },
    /// The name of a parameter is missing or invalid.
    #[error(
        "the key contains an invalid parameter at byte {at}: use the parameter's name in the route, such as `{{sku}}`, without `*`"
    )]
    BadPlaceholder {
        /// The byte offset of the parameter.
        at: usize,
    },
    /// Two parameters are not separated, so the end of the first is ambiguous.
    #[error(
        "the parameter at byte {at} is not separated from the previous one: put a character such as `:` or `/` between \
         them, but not a letter, a digit, `-`, `_`, `.`, `~` or `%`"
    )]
    NoSeparator {
        /// The byte offset of the second parameter.
        at: usize,
    },
    /// A type was given for a parameter that is not in the template.
    #[error(
        "`typed` was called with `{name}`, but the template has no such parameter: use a name from the template"
    )]
    UnknownParameter {
        /// The given name.
        name: String,
    },
    /// The key contains a path parameter, but the `axum` feature is disabled.
    #[error(
        "the key contains a path parameter: enable lock-tower's `axum` feature, or use `KeyTemplate::from_fn`"
    )]
    NeedsAxum,
    /// The name of a path parameter is invalid.
    #[error(
        "`{name}` is not a valid path parameter: use the bare name from the route, such as `sku`, without the `*`"
    )]
    PathParameter {
        /// The given name.
        name: String,
    },
    /// A part is parsed as a floating-point number. `0` and `-0` are equal, but would be different locks.
    #[error("the key has a part of type `{ty}`, whose equal values can have different texts: use an integer")]
    FloatingPoint {
        /// The type.
        ty: &'static str,
    },
    /// The name of a query parameter is empty.
    #[error("a query parameter in the key has no name: use its name in the query string, such as `sku`")]
    QueryParameter,
    /// The name of a header is malformed.
    #[error("`{name}` is not a valid header name: use letters, digits and `-`")]
    Header {
        /// The given name.
        name: String,
    },
    /// No keys were given.
    #[error("the layer has no keys: add at least one")]
    NoKeys,
    /// More keys were given than a lock set can contain.
    #[error("the layer has {keys} keys: use at most {most}")]
    TooManyKeys {
        /// The number of keys.
        keys: usize,
        /// The maximum number of keys.
        most: usize,
    },
    /// The fixed parts are not a valid lock name.
    #[error(fmt = with_cause)]
    Name(#[source] NameError),
}

/// Writes the cause only with `{:#}`.
fn with_cause(cause: &NameError, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("the key's fixed parts are not a valid lock name")?;
    if f.alternate() { write!(f, ": {cause}") } else { Ok(()) }
}

impl From<std::convert::Infallible> for InvalidKey {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

/// The reason why a request's key cannot be determined. The variant tells who can fix it.
///
/// Its text describes the problem.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// The client omitted part of the key. The request is rejected with 400, unless
    /// [`on_bad_key`](crate::LockLayer::on_bad_key) passes it through. The text is shown to the client.
    Missing(Cow<'static, str>),
    /// A part of the key is malformed, ambiguous or too long; the client can fix it. The request is rejected with
    /// 400. The text is shown to the client.
    BadRequest(Cow<'static, str>),
    /// The layer is in the wrong place, or another layer is missing; the programmer can fix it. The
    /// request is rejected with 500. The text is logged and not shown to the client.
    Misconfigured(Cow<'static, str>),
    /// The source of the key did not respond. The request is rejected with 503. The text is not shown to the client.
    Unavailable(Cow<'static, str>),
    /// The request matched no route of the router that the layer is around, so it has no path parameters. The request
    /// is rejected with 404.
    NoRoute,
}

impl KeyError {
    /// Creates an error for a part of the key that the client omitted. `detail` is shown to the
    /// client.
    pub fn missing(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::Missing(detail.into())
    }

    /// Creates an error for a malformed part of the key that the client can fix. `detail` is shown to the client.
    pub fn bad_request(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::BadRequest(detail.into())
    }

    /// Creates an error that the programmer must fix. `detail` is logged and not shown to the client.
    pub fn misconfigured(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::Misconfigured(detail.into())
    }

    /// Creates an error for a key source that did not respond. `detail` is logged and not shown to
    /// the client.
    pub fn unavailable(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::Unavailable(detail.into())
    }

    /// Returns the description of the problem.
    #[must_use]
    pub fn detail(&self) -> &str {
        match self {
            Self::Missing(detail)
            | Self::BadRequest(detail)
            | Self::Misconfigured(detail)
            | Self::Unavailable(detail) => detail,
            Self::NoRoute => "nothing is at this path",
        }
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the lock key could not be determined: {}", self.detail())
    }
}

impl Error for KeyError {}

/// The fixed parts of a key are checked when the layer is built or the `LockKey` derive is compiled,
/// so the error is in a value from the client.
impl From<NameError> for KeyError {
    fn from(error: NameError) -> Self {
        Self::bad_request(match error {
            NameError::Empty => "the key is empty",
            NameError::EmptyPart { .. } => "part of the key is empty",
            NameError::TooLong { .. } => "the key is too long",
            NameError::ReservedPrefix { .. } => "the key begins with a reserved prefix",
            NameError::UnwrittenPart { .. } => {
                return Self::misconfigured("part of the key could not be formatted: check its `Display`");
            }
            _ => "the key contains characters that are not allowed",
        })
    }
}
