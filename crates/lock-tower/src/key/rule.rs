//! The rule for one key: a fixed name, a template, or a function.

use super::{
    error::{self, KeyError},
    escape,
    function::{self, AsyncFunction, Function},
    piece::Piece,
    source::Reader,
};
use futures_util::future::BoxFuture;
use http::request::Parts;
use lock_core::LockName;
use std::fmt;

pub(super) enum Rule {
    Fixed(LockName),
    Pieces(Vec<Piece>),
    Function(Function),
    AsyncFunction(AsyncFunction),
}

/// A name, or a future that resolves to one.
pub(super) enum ReadName {
    Now(Result<LockName, KeyError>),
    Later(BoxFuture<'static, Result<LockName, KeyError>>),
}

impl Rule {
    pub(super) fn read(&self, parts: &mut Parts) -> ReadName {
        match self {
            Self::Fixed(name) => ReadName::Now(Ok(name.clone())),
            Self::Pieces(pieces) => ReadName::Now(
                join(pieces, parts).map_err(|error| without_route(pieces, parts).unwrap_or(error)),
            ),
            Self::Function(read) => ReadName::Now(read(parts).and_then(|name| error::name(&name))),
            Self::AsyncFunction(read) => ReadName::Later(function::in_time(read(parts))),
        }
    }
}

fn join(pieces: &[Piece], parts: &mut Parts) -> Result<LockName, KeyError> {
    let mut reader = Reader::new(parts);
    let mut name = String::new();
    for piece in pieces {
        match piece {
            Piece::Literal(text) => name.push_str(text),
            Piece::Value(source, parse) => {
                escape::push(&mut name, &reader.value(source, *parse)?, source)?;
            }
        }
    }
    error::name(&name)
}

/// Returns the error for a request that matched no route, if the key has a path parameter. `Router::layer` is also around
/// the router's fallback.
#[cfg(feature = "axum")]
fn without_route(pieces: &[Piece], parts: &Parts) -> Option<KeyError> {
    use super::source::Source;
    use axum::extract::{MatchedPath, OriginalUri};

    let reads_path = pieces.iter().any(|piece| matches!(piece, Piece::Value(Source::Path(_), _)));
    // A router inserts the URI before it looks for the route, so a layer outside of all routers sees neither.
    let in_router = parts.extensions.get::<OriginalUri>().is_some();
    let unmatched = in_router && parts.extensions.get::<MatchedPath>().is_none();
    (reads_path && unmatched).then(KeyError::no_route)
}

#[cfg(not(feature = "axum"))]
fn without_route(_: &[Piece], _: &Parts) -> Option<KeyError> {
    None
}

/// Formats the rule without values.
impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(name) => f.write_str(name.as_str()),
            Self::Pieces(pieces) => pieces.iter().try_for_each(|piece| match piece {
                Piece::Literal(text) => f.write_str(text),
                Piece::Value(source, _) => write!(f, "{{{source}}}"),
            }),
            Self::Function(_) | Self::AsyncFunction(_) => f.write_str("function"),
        }
    }
}
