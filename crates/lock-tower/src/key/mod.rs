//! The lock name of a request: built from its path, headers or query, derived from its body, or returned by a function.

mod error;
mod parts;
mod source;
#[cfg(test)]
mod tests;

pub use error::{InvalidKey, KeyError};
pub use parts::KeyParts;

use crate::buffer::{BufferRequestLayer, BufferedBody};
use bytes::Bytes;
use futures_util::{
    FutureExt, TryFutureExt,
    future::{BoxFuture, ready, try_join_all},
};
use http::request::Parts;
use lock_core::{__private::escape_part, LockName, names::LockNames, set::LockSet};
use parts::Piece;
use source::{Function, Reader};
use std::{fmt, future::Future, sync::Arc, time::Duration};

/// The time after which a lookup is dropped.
const MAX_LOOK_UP: Duration = Duration::from_secs(5);

/// A rule that derives the name of a lock from a request.
///
/// | constructor | name |
/// | --- | --- |
/// | `"report"` | a fixed name |
/// | `"stock:{sku}"` | a path template: `{sku}` is axum's path parameter; `{{` and `}}` are literal braces (feature `axum`) |
/// | [`KeyTemplate::template`] | the same, with types for its parameters: `.typed::<u64>("sku")` |
/// | [`KeyTemplate::of`] | a prefix and parts: headers, query, path parameters, functions, joined by `:`; each as text or typed |
/// | [`KeyTemplate::from_fn`], [`KeyTemplate::from_async_fn`] | the function's result |
/// | [`KeyTemplate::all`] | the names of several keys |
///
/// # Values from the client
/// Values are percent-encoded, except for `A–Z a–z 0–9 - _ . ~`, so `a:b` and `c` produce a different
/// name from `a` and `b:c`. Requests with a missing, empty or repeated value are rejected, and so
/// are names longer than [`LockName::MAX_BYTES`](lock_core::LockName::MAX_BYTES). A name is never
/// built with a missing value.
///
/// # Text keys and typed keys
/// <div class="warning">
///
/// A text key uses the client's spelling. `/accounts/7`, `/accounts/07` and `/accounts/+7` are the
/// same `Path<u64>` for the handler, but three different locks. Letter case, UUID formats and
/// Unicode normalisation also change the spelling. If the handler parses a value, or does not
/// compare it byte by byte, give the key part the same type.
///
/// </div>
///
/// ```
/// # #[cfg(feature = "axum")] {
/// use axum::{Router, extract::Path, routing::post};
/// use lock_tower::{KeyTemplate, LockLayer};
/// # use lock_core::{LockFactory, MemoryBackend};
/// # let locks = LockFactory::new(MemoryBackend::new());
///
/// async fn close(Path(id): Path<u64>) {}
///
/// let lock = LockLayer::new(locks).key(KeyTemplate::of("account").path_as::<u64>("id")); // `07` is `account:7`
/// let app: Router = Router::new().route("/accounts/{id}/close", post(close).route_layer(lock));
/// # }
/// ```
///
/// A key can combine several kinds of parts:
/// ```
/// use lock_tower::{KeyTemplate, LockLayer};
/// # use lock_core::{LockFactory, MemoryBackend};
/// # let locks = LockFactory::new(MemoryBackend::new());
/// let layer = LockLayer::new(locks).key(KeyTemplate::of("transfer").header("x-tenant").query("account"));
/// ```
#[derive(Clone)]
pub struct KeyTemplate(Rules);

#[derive(Clone)]
enum Rules {
    One(Arc<Rule>),
    Set(Vec<Arc<Rule>>),
}

/// The lock names of a request, or one of them, or a future that resolves to them.
pub(crate) enum Read<T = LockNames> {
    Now(Result<T, KeyError>),
    Later(BoxFuture<'static, Result<T, KeyError>>),
}

impl KeyTemplate {
    /// Creates a key from a prefix and parts, joined by `:`. Without parts, the name is just the prefix.
    #[must_use = "pass it to `LockLayer::key`"]
    pub fn of(prefix: impl Into<String>) -> KeyParts {
        KeyParts::new(Ok(vec![Piece::Literal(prefix.into())]))
    }

    /// Parses a path template such as `"stock:{sku}"`, to set types for its parameters (`typed`), or to add parts. If
    /// you need neither, use the text itself as the key.
    #[must_use = "pass it to `LockLayer::key`"]
    pub fn template(template: &str) -> KeyParts {
        KeyParts::new(parts::pieces(template))
    }

    /// Combines several keys, whose locks a request acquires together; see
    /// [`LockLayer::keys`](crate::LockLayer::keys).
    ///
    /// # Errors
    /// An [`InvalidKey`] if one of the keys is malformed, if there are none, or if there are more than
    /// [`LockSet::MAX_MEMBERS`].
    pub fn all<I>(keys: I) -> Result<Self, InvalidKey>
    where
        I: IntoIterator,
        I::Item: TryInto<Self>,
        InvalidKey: From<<I::Item as TryInto<Self>>::Error>,
    {
        let mut rules = Vec::new();
        for key in keys {
            match key.try_into()?.0 {
                Rules::One(rule) => rules.push(rule),
                Rules::Set(inner) => rules.extend(inner),
            }
        }
        match rules.len() {
            0 => Err(InvalidKey::NoKeys),
            keys if keys > LockSet::MAX_MEMBERS => {
                Err(InvalidKey::TooManyKeys { keys, most: LockSet::MAX_MEMBERS })
            }
            _ => Ok(Self(Rules::Set(rules))),
        }
    }

    /// Creates a key from a function of the request's head. The name is used as is:
    /// [escape](Self::escape) client values, or use [`KeyParts::part`], which escapes them.
    ///
    /// ```
    /// use lock_tower::{KeyError, KeyTemplate};
    ///
    /// let by_subject = KeyTemplate::from_fn(|request| {
    ///     let subject = request.extensions.get::<String>();
    ///     let subject = subject.ok_or(KeyError::misconfigured("no subject: is the authentication layer missing?"))?;
    ///     Ok(format!("account:{}", KeyTemplate::escape(subject)))
    /// });
    /// ```
    pub fn from_fn<F>(read: F) -> Self
    where
        F: Fn(&Parts) -> Result<String, KeyError> + Send + Sync + 'static,
    {
        Self::new(Rule::Function(Arc::new(read)))
    }

    /// Creates a key from an async function of the request's head. The name is used as is. The
    /// future is dropped if it takes longer than 5 seconds.
    ///
    /// ```
    /// use lock_tower::{KeyTemplate, KeyError};
    ///
    /// let by_account = KeyTemplate::from_async_fn(|request| {
    ///     let path = request.uri.path().to_owned();
    ///     async move { Ok(format!("account:{}", account_of(&path).await?)) }
    /// });
    /// # async fn account_of(_: &str) -> Result<u64, KeyError> { Ok(7) }
    /// ```
    pub fn from_async_fn<F, W>(read: F) -> Self
    where
        F: Fn(&Parts) -> W + Send + Sync + 'static,
        W: Future<Output = Result<String, KeyError>> + Send + 'static,
    {
        Self::new(Rule::AsyncFunction(Arc::new(move |parts| read(parts).boxed())))
    }

    /// Percent-encodes a value for use in a name, like the parts of a template: all bytes except
    /// `A–Z a–z 0–9 - _ . ~`. Different values never produce the same name if they are escaped and
    /// joined by `:`.
    #[must_use]
    pub fn escape(value: impl AsRef<[u8]>) -> String {
        escape_part(value.as_ref()).collect()
    }

    /// Returns the key if it has one name, as permits require.
    pub(crate) fn single(self) -> Result<Self, InvalidKey> {
        match self.0 {
            Rules::Set(mut rules) => match (rules.pop(), rules.len()) {
                (Some(rule), 0) => Ok(Self(Rules::One(rule))),
                (_, others) => Err(InvalidKey::TooManyKeys { keys: others + 1, most: 1 }),
            },
            one => Ok(Self(one)),
        }
    }

    fn new(rule: Rule) -> Self {
        Self(Rules::One(Arc::new(rule)))
    }

    /// Builds a key from pieces. Literals alone form a fixed name.
    fn of_pieces(pieces: Vec<Piece>) -> Result<Self, InvalidKey> {
        // Checks the literals, with a placeholder for each value.
        let sample: String = pieces.iter().map(|piece| piece.literal().unwrap_or("x")).collect();
        let name = LockName::new(sample).map_err(InvalidKey::Name)?;
        let fixed = pieces.iter().all(|piece| piece.literal().is_some());
        Ok(Self::new(if fixed { Rule::Fixed(name) } else { Rule::Pieces(pieces) }))
    }

    pub(crate) fn read(&self, parts: &mut Parts) -> Read {
        match &self.0 {
            Rules::One(rule) => match rule.read(parts) {
                Read::Now(name) => Read::Now(name.map(LockNames::from)),
                Read::Later(name) => Read::Later(name.map_ok(LockNames::from).boxed()),
            },
            Rules::Set(rules) => read_all(rules.iter().map(|rule| rule.read(parts)).collect()),
        }
    }
}

/// Joins the names, waiting for all pending ones concurrently.
fn read_all(names: Vec<Read<LockName>>) -> Read {
    if names.iter().any(|name| matches!(name, Read::Later(_))) {
        let names = names.into_iter().map(|name| match name {
            Read::Now(name) => ready(name).boxed(),
            Read::Later(name) => name,
        });
        return Read::Later(try_join_all(names).map_ok(LockNames::from_iter).boxed());
    }
    let names = names.into_iter().filter_map(|name| match name {
        Read::Now(name) => Some(name),
        Read::Later(_) => None,
    });
    Read::Now(names.collect())
}

impl TryFrom<&str> for KeyTemplate {
    type Error = InvalidKey;
    fn try_from(template: &str) -> Result<Self, InvalidKey> {
        Self::template(template).try_into()
    }
}

impl TryFrom<String> for KeyTemplate {
    type Error = InvalidKey;
    fn try_from(template: String) -> Result<Self, InvalidKey> {
        template.as_str().try_into()
    }
}

impl TryFrom<KeyParts> for KeyTemplate {
    type Error = InvalidKey;
    fn try_from(parts: KeyParts) -> Result<Self, InvalidKey> {
        Self::of_pieces(parts.pieces()?)
    }
}

impl From<LockName> for KeyTemplate {
    fn from(name: LockName) -> Self {
        Self::new(Rule::Fixed(name))
    }
}

impl fmt::Debug for KeyTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Rules::One(rule) => write!(f, "KeyTemplate({rule:?})"),
            Rules::Set(rules) => write!(f, "KeyTemplate({rules:?})"),
        }
    }
}

/// The rule for one key: a fixed name, a template, or a function.
enum Rule {
    Fixed(LockName),
    Pieces(Vec<Piece>),
    Function(Function),
    AsyncFunction(AsyncFunction),
}

impl Rule {
    fn read(&self, parts: &mut Parts) -> Read<LockName> {
        match self {
            Self::Fixed(name) => Read::Now(Ok(name.clone())),
            Self::Pieces(pieces) => {
                Read::Now(join(pieces, parts).map_err(|error| without_route(pieces, parts).unwrap_or(error)))
            }
            Self::Function(read) => Read::Now(read(parts).and_then(|name| Ok(LockName::new(name)?))),
            Self::AsyncFunction(read) => Read::Later(in_time(read(parts)).boxed()),
        }
    }
}

fn join(pieces: &[Piece], parts: &mut Parts) -> Result<LockName, KeyError> {
    let mut reader = Reader::new(parts);
    let mut name = String::new();
    for piece in pieces {
        match piece {
            Piece::Literal(text) => name.push_str(text),
            Piece::Value(source, parse) => reader.push(&mut name, source, *parse)?,
        }
    }
    Ok(LockName::new(name)?)
}

/// Returns the error for a request that matched no route, if the key has a path parameter. `Router::layer` is also
/// around the router's fallback.
#[cfg(feature = "axum")]
fn without_route(pieces: &[Piece], parts: &Parts) -> Option<KeyError> {
    use axum::extract::{MatchedPath, OriginalUri};
    use source::Source;

    let reads_path = pieces.iter().any(|piece| matches!(piece, Piece::Value(Source::Path(_), _)));
    // A router inserts the URI before it looks for the route, so a layer outside of all routers sees neither.
    let in_router = parts.extensions.get::<OriginalUri>().is_some();
    let unmatched = in_router && parts.extensions.get::<MatchedPath>().is_none();
    (reads_path && unmatched).then_some(KeyError::NoRoute)
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

type Reading = BoxFuture<'static, Result<String, KeyError>>;
type AsyncFunction = Arc<dyn Fn(&Parts) -> Reading + Send + Sync>;

async fn in_time(reading: Reading) -> Result<LockName, KeyError> {
    match tokio::time::timeout(MAX_LOOK_UP, reading).await {
        Ok(name) => Ok(LockName::new(name?)?),
        Err(_) => Err(KeyError::unavailable(format!("the key lookup took longer than {MAX_LOOK_UP:?}"))),
    }
}

type ReadBody = Arc<dyn Fn(&Parts, &Bytes) -> Result<LockNames, KeyError> + Send + Sync>;

/// A function that derives the key from a request's head and body; set by
/// [`LockLayer::body_key`](crate::LockLayer::body_key).
#[derive(Clone)]
pub struct BodyKey {
    buffer: BufferRequestLayer,
    read: ReadBody,
}

impl BodyKey {
    pub(crate) fn new<F, N>(buffer: BufferRequestLayer, read: F) -> Self
    where
        F: Fn(&Parts, &Bytes) -> Result<N, KeyError> + Send + Sync + 'static,
        N: Into<LockNames>,
    {
        Self { buffer, read: Arc::new(move |parts, body| read(parts, body).map(Into::into)) }
    }

    /// Returns the layer that reads the bodies.
    pub(crate) fn buffer(&self) -> &BufferRequestLayer {
        &self.buffer
    }

    pub(crate) fn read(&self, parts: &Parts, body: &BufferedBody) -> Result<LockNames, KeyError> {
        (self.read)(parts, body.bytes())
    }
}

impl fmt::Debug for BodyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyKey").field("buffer", &self.buffer).finish_non_exhaustive()
    }
}
