//! A key of several parts.

use super::{Piece, error::InvalidKey, error::KeyError, source::Source};
use http::{HeaderName, request::Parts};
use std::sync::Arc;

/// A prefix and parts, joined by `:`; made by [`KeyTemplate::of`](super::KeyTemplate::of).
///
/// ```
/// use lock_tower::{KeyTemplate, KeyError};
///
/// let key = KeyTemplate::of("transfer").header("x-tenant").query("account").part(|request| {
///     let host = request.uri.host().ok_or(KeyError::missing("the host is missing"))?;
///     Ok(host.to_owned())
/// });
/// assert!(KeyTemplate::try_from(key).is_ok());
/// ```
#[derive(Clone)]
#[must_use = "give it to `LockLayer::key`"]
pub struct KeyParts {
    prefix: String,
    sources: Result<Vec<Source>, InvalidKey>,
}

impl KeyParts {
    pub(super) fn new(prefix: String) -> Self {
        Self { prefix, sources: Ok(Vec::new()) }
    }

    /// The value of a header, which must be there once. Make sure that the client may not choose it freely, or that
    /// this does no harm.
    pub fn header(self, name: &str) -> Self {
        let source = HeaderName::from_bytes(name.as_bytes()).map(Source::Header);
        self.with(source.map_err(|_| InvalidKey::Header { name: name.to_owned() }))
    }

    /// The value of a query parameter, which must be there once.
    pub fn query(self, name: impl Into<String>) -> Self {
        self.with(Ok(Source::Query(name.into())))
    }

    /// The value of a path parameter of the route, which must be there once.
    #[cfg(feature = "axum")]
    pub fn path(self, name: impl Into<String>) -> Self {
        self.with(Ok(Source::Path(name.into())))
    }

    /// What `read` makes of the head of the request. It is escaped like any value.
    pub fn part<F>(self, read: F) -> Self
    where
        F: Fn(&Parts) -> Result<String, KeyError> + Send + Sync + 'static,
    {
        self.with(Ok(Source::Function(Arc::new(read))))
    }

    fn with(mut self, source: Result<Source, InvalidKey>) -> Self {
        self.sources = self.sources.and_then(|mut sources| {
            sources.push(source?);
            Ok(sources)
        });
        self
    }

    pub(super) fn pieces(self) -> Result<Vec<Piece>, InvalidKey> {
        let mut pieces = vec![Piece::Literal(self.prefix)];
        for source in self.sources? {
            pieces.extend([Piece::Literal(":".to_owned()), Piece::Value(source)]);
        }
        Ok(pieces)
    }
}
