//! A key of several parts: text, and values of the request; written as a template, or part by part.

use super::{
    error::{InvalidKey, KeyError},
    source::{Canonical, Source, canonical, is_path_parameter},
};
use http::request::Parts;
use lock_core::{__private::separates, NameError};
use std::{any::type_name, fmt::Display, str::FromStr, sync::Arc};

/// A prefix or a template with further parts, joined by `:`; created by [`KeyTemplate::of`](super::KeyTemplate::of) and
/// [`KeyTemplate::template`](super::KeyTemplate::template).
///
/// A typed part is parsed with `FromStr`, as in the handler's extractor, and formatted with
/// `Display`. Requests with values that cannot be parsed are rejected with 400. Equal values must have equal texts, or
/// they are different locks: a decimal type that keeps trailing zeros, for example, needs a wrapper that removes them.
/// Floating-point numbers are refused when the layer is built.
///
/// ```
/// use lock_tower::{KeyError, KeyTemplate};
///
/// let key = KeyTemplate::of("transfer").header("x-tenant").query_as::<u64>("account").part(|request| {
///     let host = request.uri.host().ok_or(KeyError::missing("the host is missing"))?;
///     Ok(host.to_owned())
/// });
/// assert!(KeyTemplate::try_from(key).is_ok());
/// ```
#[derive(Clone)]
#[must_use = "pass it to `LockLayer::key`"]
pub struct KeyParts(Result<Vec<Piece>, InvalidKey>);

impl KeyParts {
    /// Creates a key from its first part. An empty part is an error, because the name would begin with a separator.
    pub(super) fn new(pieces: Result<Vec<Piece>, InvalidKey>) -> Self {
        Self(pieces.and_then(|pieces| match &*pieces {
            [Piece::Literal(text)] if text.is_empty() => Err(InvalidKey::Name(NameError::Empty)),
            _ => Ok(pieces),
        }))
    }

    /// Adds the value of a header, which must be present exactly once. Make sure that clients cannot choose it freely,
    /// or that it is harmless if they do.
    pub fn header(self, name: &str) -> Self {
        self.with(Source::header(name), None)
    }

    /// Adds the value of a header, parsed as a `T`. Values that are not UTF-8 are malformed.
    pub fn header_as<T: FromStr + Display>(self, name: &str) -> Self {
        self.with(with_exact_text::<T, _>(Source::header(name)), Some(canonical::<T>))
    }

    /// Adds the value of a query parameter, which must be present exactly once.
    pub fn query(self, name: impl Into<String>) -> Self {
        self.with(Source::query(name.into()), None)
    }

    /// Adds the value of a query parameter, parsed as a `T`.
    pub fn query_as<T: FromStr + Display>(self, name: impl Into<String>) -> Self {
        self.with(with_exact_text::<T, _>(Source::query(name.into())), Some(canonical::<T>))
    }

    /// Adds the value of a path parameter, which must be present exactly once.
    #[cfg(feature = "axum")]
    pub fn path(self, name: impl Into<String>) -> Self {
        self.with(Source::path(name.into()), None)
    }

    /// Adds the value of a path parameter, parsed as a `T`.
    #[cfg(feature = "axum")]
    pub fn path_as<T: FromStr + Display>(self, name: impl Into<String>) -> Self {
        self.with(with_exact_text::<T, _>(Source::path(name.into())), Some(canonical::<T>))
    }

    /// Adds the value that `read` returns for the request's head. It is escaped like any other
    /// value.
    pub fn part<F>(self, read: F) -> Self
    where
        F: Fn(&Parts) -> Result<String, KeyError> + Send + Sync + 'static,
    {
        self.with(Ok(Source::Function(Arc::new(read))), None)
    }

    /// Parses the path parameter with this name as a `T`, wherever it occurs in the template.
    ///
    /// If the template has no such parameter, [`LockLayer::key`](crate::LockLayer::key) panics and
    /// [`LockLayer::try_key`](crate::LockLayer::try_key) returns [`InvalidKey::UnknownParameter`].
    ///
    /// ```
    /// # #[cfg(feature = "axum")] {
    /// use lock_tower::KeyTemplate;
    ///
    /// let key = KeyTemplate::template("stock:{house}:{sku}").typed::<u64>("sku");
    /// assert!(KeyTemplate::try_from(key).is_ok());
    /// # }
    /// ```
    #[cfg(feature = "axum")]
    pub fn typed<T: FromStr + Display>(self, name: &str) -> Self {
        Self(with_exact_text::<T, _>(self.0).and_then(|mut pieces| {
            let mut found = false;
            for piece in &mut pieces {
                if let Piece::Value(Source::Path(of), parse) = piece
                    && of == name
                {
                    *parse = Some(canonical::<T>);
                    found = true;
                }
            }
            found.then_some(pieces).ok_or_else(|| InvalidKey::UnknownParameter { name: name.to_owned() })
        }))
    }

    fn with(self, source: Result<Source, InvalidKey>, parse: Option<Canonical>) -> Self {
        Self(self.0.and_then(|mut pieces| {
            pieces.extend([Piece::Literal(":".to_owned()), Piece::Value(source?, parse)]);
            Ok(pieces)
        }))
    }

    pub(super) fn pieces(self) -> Result<Vec<Piece>, InvalidKey> {
        self.0
    }
}

/// Refuses floating-point numbers: `0` and `-0` are equal, and NaN is not equal to itself.
fn with_exact_text<T, V>(part: Result<V, InvalidKey>) -> Result<V, InvalidKey> {
    match type_name::<T>() {
        ty @ ("f32" | "f64") => Err(InvalidKey::FloatingPoint { ty }),
        _ => part,
    }
}

/// A piece of a name: fixed text, or a value read from the request.
#[derive(Clone)]
pub(super) enum Piece {
    Literal(String),
    /// A value, parsed if it has a type.
    Value(Source, Option<Canonical>),
}

impl Piece {
    pub(super) fn literal(&self) -> Option<&str> {
        match self {
            Self::Literal(text) => Some(text),
            Self::Value(..) => None,
        }
    }
}

/// Parses a template such as `"stock:{sku}"`.
pub(super) fn pieces(template: &str) -> Result<Vec<Piece>, InvalidKey> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = template.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        match c {
            '{' | '}' if rest.next_if(|(_, next)| *next == c).is_some() => literal.push(c),
            '}' => return Err(InvalidKey::UnmatchedBrace { at }),
            '{' => {
                let name: String = std::iter::from_fn(|| rest.next_if(|(_, c)| !"{}".contains(*c)))
                    .map(|(_, c)| c)
                    .collect();
                if rest.next_if(|(_, c)| *c == '}').is_none() {
                    return Err(InvalidKey::UnmatchedBrace { at });
                }
                if !is_path_parameter(&name) {
                    return Err(InvalidKey::BadPlaceholder { at });
                }
                if pieces.iter().any(is_value) && !separates(&literal) {
                    return Err(InvalidKey::NoSeparator { at });
                }
                pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                pieces.push(value(name)?);
            }
            c => literal.push(c),
        }
    }
    pieces.push(Piece::Literal(literal));
    Ok(pieces)
}

fn is_value(piece: &Piece) -> bool {
    piece.literal().is_none()
}

#[cfg(feature = "axum")]
fn value(name: String) -> Result<Piece, InvalidKey> {
    Ok(Piece::Value(Source::path(name)?, None))
}

#[cfg(not(feature = "axum"))]
fn value(_: String) -> Result<Piece, InvalidKey> {
    Err(InvalidKey::NeedsAxum)
}
