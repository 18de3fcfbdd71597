//! The values of a request that are part of its key: where they are, and how they are read, parsed and escaped.

use super::error::{InvalidKey, KeyError};
use http::{HeaderName, request::Parts};
use lock_core::{__private::escape_part, LockName};
use std::{borrow::Cow, fmt, str::FromStr, sync::Arc};

/// U+FFFD, in UTF-8.
const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

/// A function of the application that reads part of a key, or a whole one, from the head of a request.
pub(super) type Function = Arc<dyn Fn(&Parts) -> Result<String, KeyError> + Send + Sync>;

/// The place of a value in a request.
#[derive(Clone)]
pub(super) enum Source {
    #[cfg(feature = "axum")]
    Path(String),
    Header(HeaderName),
    Query(String),
    Function(Function),
}

impl Source {
    #[cfg(feature = "axum")]
    pub(super) fn path(name: String) -> Result<Self, InvalidKey> {
        if !is_path_parameter(&name) {
            return Err(InvalidKey::PathParameter { name });
        }
        Ok(Self::Path(name))
    }

    pub(super) fn header(name: &str) -> Result<Self, InvalidKey> {
        let header = HeaderName::from_bytes(name.as_bytes());
        header.map(Self::Header).map_err(|_| InvalidKey::Header { name: name.to_owned() })
    }

    pub(super) fn query(name: String) -> Result<Self, InvalidKey> {
        if name.is_empty() {
            return Err(InvalidKey::QueryParameter);
        }
        Ok(Self::Query(name))
    }
}

/// Returns `true` if a route can contain a parameter with this name. With any other name, every
/// request would be rejected with 500.
pub(super) fn is_path_parameter(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| "{}*/".contains(c) || c.is_whitespace())
}

/// A function that parses a value and formats the result; returns `None` if the value is malformed.
pub(super) type Canonical = fn(&[u8]) -> Option<String>;

pub(super) fn canonical<T: FromStr + fmt::Display>(value: &[u8]) -> Option<String> {
    let value: T = str::from_utf8(value).ok()?.parse().ok()?;
    Some(value.to_string())
}

/// Formats the description shown to clients.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            #[cfg(feature = "axum")]
            Self::Path(name) => write!(f, "path parameter `{name}`"),
            Self::Header(name) => write!(f, "header `{name}`"),
            Self::Query(name) => write!(f, "query parameter `{name}`"),
            Self::Function(_) => write!(f, "part of the key"),
        }
    }
}

/// A reader for the values of one request.
pub(super) struct Reader<'a> {
    parts: &'a mut Parts,
    #[cfg(feature = "axum")]
    path: Option<axum::extract::RawPathParams>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(parts: &'a mut Parts) -> Self {
        Self {
            parts,
            #[cfg(feature = "axum")]
            path: None,
        }
    }

    /// Adds a value to a name. It is escaped, so that different values never produce the same name.
    pub(super) fn push(
        &mut self,
        name: &mut String,
        source: &Source,
        canonical: Option<Canonical>,
    ) -> Result<(), KeyError> {
        let value = self.value(source, canonical)?;
        if value.is_empty() {
            return Err(KeyError::bad_request(format!("the {source} is empty")));
        }
        // Checked before escaping, which can triple the length.
        if value.len() > LockName::MAX_BYTES {
            return Err(KeyError::bad_request(format!("the {source} is too long")));
        }
        name.extend(escape_part(&value));
        Ok(())
    }

    /// Returns the value as the client sent it, or parsed and formatted by its type.
    fn value(&mut self, source: &Source, canonical: Option<Canonical>) -> Result<Cow<'_, [u8]>, KeyError> {
        let value = self.read(source)?;
        let Some(canonical) = canonical else { return Ok(value) };
        let malformed = || KeyError::bad_request(format!("the {source} is malformed"));
        canonical(&value).map(|value| bytes(Cow::Owned(value))).ok_or_else(malformed)
    }

    fn read(&mut self, source: &Source) -> Result<Cow<'_, [u8]>, KeyError> {
        match source {
            #[cfg(feature = "axum")]
            Source::Path(name) => self.path(name, source),
            Source::Header(name) => {
                let values = self.parts.headers.get_all(name).iter();
                once(values.map(|value| Cow::Borrowed(value.as_bytes())), source)
            }
            Source::Query(name) => {
                let query = self.parts.uri.query().unwrap_or_default();
                let pairs = form_urlencoded::parse(query.as_bytes());
                let value =
                    once(pairs.filter(|(key, _)| key == name).map(|(_, value)| bytes(value)), source)?;
                // Bytes that are not UTF-8 were replaced, so different values would become equal.
                match value.windows(REPLACEMENT.len()).any(|bytes| bytes == REPLACEMENT) {
                    true => Err(KeyError::bad_request(format!("the {source} is not UTF-8"))),
                    false => Ok(value),
                }
            }
            Source::Function(read) => Ok(bytes(Cow::Owned(read(self.parts)?))),
        }
    }

    #[cfg(feature = "axum")]
    fn path(&mut self, name: &str, source: &Source) -> Result<Cow<'_, [u8]>, KeyError> {
        let params = match self.path.take() {
            Some(params) => params,
            None => path_parameters(self.parts)?,
        };
        let params = self.path.insert(params);
        let mut values = params.iter().filter(|(key, _)| *key == name).map(|(_, value)| value.as_bytes());
        // Not a client error: the route has no such parameter, or a nested route reuses the name.
        let value = values.next().ok_or_else(|| {
            KeyError::misconfigured(format!("the route has no {source}: it has {}", names(params)))
        })?;
        if values.next().is_some() {
            return Err(KeyError::misconfigured(format!("the route has more than one {source}: rename one")));
        }
        Ok(Cow::Borrowed(value))
    }
}

#[cfg(feature = "axum")]
fn path_parameters(parts: &mut Parts) -> Result<axum::extract::RawPathParams, KeyError> {
    use axum::extract::{FromRequestParts, RawPathParams};
    use futures_util::FutureExt;

    const MISPLACED: &str = "there are no path parameters here: put the LockLayer on the method, as in \
                             `post(order).route_layer(lock)`, not around the Router";
    // The extractor reads an extension and is immediately ready.
    match RawPathParams::from_request_parts(parts, &()).now_or_never() {
        Some(Ok(params)) => Ok(params),
        Some(Err(rejection)) if rejection.status().is_client_error() => {
            Err(KeyError::bad_request("a path parameter is not UTF-8"))
        }
        Some(Err(_)) | None => Err(KeyError::misconfigured(MISPLACED)),
    }
}

#[cfg(feature = "axum")]
fn names(params: &axum::extract::RawPathParams) -> String {
    let names: Vec<_> = params.iter().map(|(name, _)| format!("`{name}`")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Returns the only value. If there were two, the handler could read one and the lock the other.
fn once<'a>(
    mut values: impl Iterator<Item = Cow<'a, [u8]>>,
    source: &Source,
) -> Result<Cow<'a, [u8]>, KeyError> {
    let value = values.next().ok_or_else(|| KeyError::missing(format!("the {source} is missing")))?;
    match values.next() {
        None => Ok(value),
        Some(_) => Err(KeyError::bad_request(format!("the {source} is present more than once"))),
    }
}

fn bytes(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}
