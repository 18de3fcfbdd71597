//! The operator of the console, and the guard that identifies operators.

use axum::{http::request::Parts, response::Response};
use futures_util::future::BoxFuture;
use std::{fmt, future::Future, sync::Arc};

/// The name of an operator. It is stored with each pause set by the operator, and logged with each
/// action.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Actor(String);

impl Actor {
    /// Creates an actor with the given name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

type Identify = dyn Fn(&Parts) -> BoxFuture<'static, Result<Actor, Response>> + Send + Sync;

/// Identifies the operator of a request, or rejects it.
#[derive(Clone)]
pub(super) struct Guard(Arc<Identify>);

impl Guard {
    pub(super) fn new<G, F>(guard: G) -> Self
    where
        G: Fn(&Parts) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Actor, Response>> + Send + 'static,
    {
        Self(Arc::new(move |parts| Box::pin(guard(parts))))
    }

    pub(super) async fn identify(&self, parts: &Parts) -> Result<Actor, Response> {
        let identified = (self.0)(parts);
        identified.await
    }
}
