//! Keys derived from request bodies.

use super::error::KeyError;
use crate::buffer::{BufferRequestLayer, BufferedBody};
use bytes::Bytes;
use http::request::Parts;
use lock_core::names::LockNames;
use std::{fmt, sync::Arc};

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
