//! Selection of a backend by URL, so that it can be configured.

use crate::{backend::Store, error::LockError, memory, sync::enter, worker::Worker};
use async_trait::async_trait;
use std::{fmt::Debug, sync::Arc};

/// Creates stores of one kind from URLs. Implemented by backend crates.
#[async_trait]
pub trait Connector: Debug + Send + Sync + 'static {
    /// Returns the URL schemes that it serves, for example `redis` and `rediss`.
    fn schemes(&self) -> &[&'static str];

    /// Creates the store. The scheme of the URL is in lower case.
    ///
    /// # Errors
    /// A [`LockError`] that says what to do and contains no secrets from the URL.
    async fn connect(&self, url: &str) -> Result<Store, LockError>;

    /// Creates the store without waiting for a server. It connects in the background, and its operations fail as
    /// unavailable until then.
    ///
    /// # Errors
    /// A [`LockError`] if the URL or the files that it names cannot be used, or if the store must be reached first.
    fn connect_lazy(&self, url: &str) -> Result<Store, LockError>;
}

/// The backends that a program can be configured to use.
///
/// `memory:` creates a new store each time. `memory:name` is shared by all users of that name in this process, and
/// lives until the last of them drops it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
/// use lock_core::{Connectors, LockFactory};
///
/// let store = Connectors::default().connect("memory:").await?;
/// let locks = LockFactory::new(store);
///
/// let error = Connectors::default().connect("redis://localhost").await.unwrap_err();
/// assert!(error.to_string().contains("supported: memory"));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Connectors {
    known: Vec<Arc<dyn Connector>>,
    worker: Option<Worker>,
}

impl Connectors {
    /// Adds a connector. A later one overrides an earlier one with the same scheme.
    #[must_use]
    pub fn with(mut self, connector: impl Connector) -> Self {
        self.known.insert(0, Arc::new(connector));
        self
    }

    /// Opens connections in the runtime of `worker`, where they stay.
    #[must_use]
    pub fn worker(mut self, worker: Worker) -> Self {
        self.worker = Some(worker);
        self
    }

    /// Returns the known schemes, sorted.
    #[must_use]
    pub fn schemes(&self) -> Vec<&'static str> {
        let mut schemes: Vec<_> =
            self.known.iter().flat_map(|connector| connector.schemes()).copied().collect();
        schemes.sort_unstable();
        schemes.dedup();
        schemes
    }

    /// Creates the store for this URL.
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidUrl`](crate::LockErrorKind::InvalidUrl) if the scheme is unknown (the message lists
    /// the known ones) or the connector rejects the rest.
    ///
    /// # Cancel safety
    /// Cancel safe if the connector is; no state is kept here.
    pub async fn connect(&self, url: &str) -> Result<Store, LockError> {
        let (connector, url) = self.connector(url)?;
        let Some(worker) = &self.worker else { return connector.connect(&url).await };
        let store = worker.run(async move { connector.connect(&url).await }).await??;
        Ok(store.on(worker.clone()))
    }

    /// Creates the store for this URL without waiting for a server; see [`Connector::connect_lazy`].
    ///
    /// # Errors
    /// The errors of [`connect`](Self::connect) that need no server.
    pub fn connect_lazy(&self, url: &str) -> Result<Store, LockError> {
        let (connector, url) = self.connector(url)?;
        let Some(worker) = &self.worker else { return connector.connect_lazy(&url) };
        let store = enter(worker.handle(), || connector.connect_lazy(&url))?;
        Ok(store.on(worker.clone()))
    }

    /// Returns the connector for this URL, and the URL with its scheme in lower case.
    fn connector(&self, url: &str) -> Result<(Arc<dyn Connector>, String), LockError> {
        // An error only ever repeats the scheme: the rest may contain a password.
        let scheme = url.split_once(':').map(|(scheme, _)| scheme).filter(|scheme| is_scheme(scheme));
        let Some(scheme) = scheme else { return Err(self.no_scheme()) };
        let (scheme, rest) = (&*scheme.to_ascii_lowercase(), &url[scheme.len()..]);
        match self.known.iter().find(|connector| connector.schemes().contains(&scheme)) {
            Some(connector) => Ok((connector.clone(), format!("{scheme}{rest}"))),
            None if rest.starts_with("://") => Err(LockError::invalid_url(self.unknown(scheme))),
            // The scheme may be the first half of a password.
            None => Err(self.no_scheme()),
        }
    }

    fn no_scheme(&self) -> LockError {
        LockError::invalid_url(format!(
            "it has no scheme: begin it with a supported scheme ({}) and a colon, for example `memory:`",
            self.schemes().join(", ")
        ))
    }

    fn unknown(&self, scheme: &str) -> String {
        let known = self.schemes().join(", ");
        format!(
            "the scheme `{scheme}` is not supported (supported: {known}): pass the connector of the crate that serves it to \
             `Connectors::with`"
        )
    }
}

fn is_scheme(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic())
        && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
        && text.len() <= 32
}

impl Default for Connectors {
    /// Returns connectors that serve only `memory:`.
    fn default() -> Self {
        Self { known: vec![Arc::new(Memory)], worker: None }
    }
}

#[derive(Debug)]
struct Memory;

#[async_trait]
impl Connector for Memory {
    fn schemes(&self) -> &[&'static str] {
        &["memory"]
    }

    async fn connect(&self, url: &str) -> Result<Store, LockError> {
        self.connect_lazy(url)
    }

    fn connect_lazy(&self, url: &str) -> Result<Store, LockError> {
        let name = url.strip_prefix("memory:").unwrap_or_default();
        if name.starts_with('/') || name.contains(['?', '#', '@']) {
            return Err(LockError::invalid_url(
                "an in-memory store has no address: write `memory:` or `memory:name`",
            ));
        }
        Ok(memory::connect(name).into())
    }
}
