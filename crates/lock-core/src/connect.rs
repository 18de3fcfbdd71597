//! Which backend, by URL: the kind of lock becomes a matter of configuration.

use crate::{backend::Store, error::LockError, memory};
use async_trait::async_trait;
use std::{fmt::Debug, sync::Arc};

/// Makes stores of one kind from URLs; implemented by the crate of a backend.
#[async_trait]
pub trait Connector: Debug + Send + Sync + 'static {
    /// The schemes that it serves, for example `redis` and `rediss`.
    fn schemes(&self) -> &[&'static str];

    /// Makes the store.
    ///
    /// # Errors
    /// A [`LockError`] that says what to do and contains no secret of the URL.
    async fn connect(&self, url: &str) -> Result<Store, LockError>;
}

/// The kinds of backends that a program can be configured with.
///
/// `memory:` is a new store each time; `memory:name` is one store for all in this process who ask for that name,
/// as long as somebody has it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
/// use lock_core::{Connectors, LockFactory};
///
/// let store = Connectors::default().connect("memory:").await?;
/// let locks = LockFactory::new(store);
///
/// let error = Connectors::default().connect("redis://localhost").await.unwrap_err();
/// assert!(error.to_string().contains("lock-fred"));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Connectors {
    known: Vec<Arc<dyn Connector>>,
}

/// Schemes that this workspace serves, and the crate that does.
const SERVED_BY: [(&str, &str); 11] = [
    ("redis", "lock-fred"),
    ("rediss", "lock-fred"),
    ("valkey", "lock-fred"),
    ("valkeys", "lock-fred"),
    ("redis+unix", "lock-fred"),
    ("redis-sentinel", "lock-fred"),
    ("rediss-sentinel", "lock-fred"),
    ("redis-cluster", "lock-fred"),
    ("rediss-cluster", "lock-fred"),
    ("redlock", "lock-fred"),
    ("redlocks", "lock-fred"),
];

impl Connectors {
    /// Adds a kind; a later one wins over an earlier one with the same scheme.
    #[must_use]
    pub fn with(mut self, connector: impl Connector) -> Self {
        self.known.insert(0, Arc::new(connector));
        self
    }

    /// The schemes that are known, in order.
    #[must_use]
    pub fn schemes(&self) -> Vec<&'static str> {
        let mut schemes: Vec<_> =
            self.known.iter().flat_map(|connector| connector.schemes()).copied().collect();
        schemes.sort_unstable();
        schemes.dedup();
        schemes
    }

    /// Makes the store of that URL.
    ///
    /// # Errors
    /// [`LockErrorKind::InvalidUrl`](crate::LockErrorKind::InvalidUrl) if the scheme is unknown (the text lists the
    /// known ones and names the crate to add) or the connector refuses the rest.
    ///
    /// # Cancel safety
    /// Cancel safe as far as the connector is; nothing is kept here.
    pub async fn connect(&self, url: &str) -> Result<Store, LockError> {
        // Only the scheme is ever repeated in an error: the rest may have a password.
        let scheme = url.split_once(':').map(|(scheme, _)| scheme).filter(|scheme| is_scheme(scheme));
        let Some(scheme) = scheme else { return Err(self.no_scheme()) };
        let (scheme, rest) = (&*scheme.to_ascii_lowercase(), &url[scheme.len()..]);
        match self.known.iter().find(|connector| connector.schemes().contains(&scheme)) {
            Some(connector) => connector.connect(url).await,
            None if rest.starts_with("://") => Err(LockError::invalid_url(self.unknown(scheme))),
            // It may be the first half of a password.
            None => Err(self.no_scheme()),
        }
    }

    fn no_scheme(&self) -> LockError {
        LockError::invalid_url(format!(
            "it has no scheme: write one that is known here ({}) before a colon, for example `memory:`",
            self.schemes().join(", ")
        ))
    }

    fn unknown(&self, scheme: &str) -> String {
        let known = self.schemes().join(", ");
        match SERVED_BY.iter().find(|(served, _)| *served == scheme) {
            Some((_, by)) => format!(
                "the scheme `{scheme}` is not built in: add the crate `{by}` and give its connector to `Connectors::with` \
                 (known here: {known})"
            ),
            None => format!("the scheme `{scheme}` is unknown: use one that is known here ({known})"),
        }
    }
}

fn is_scheme(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic())
        && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
        && text.len() <= 32
}

impl Default for Connectors {
    /// Knows `memory:`.
    fn default() -> Self {
        Self { known: vec![Arc::new(Memory)] }
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
        let name = url.strip_prefix("memory:").unwrap_or_default();
        if name.starts_with('/') || name.contains(['?', '#', '@']) {
            return Err(LockError::invalid_url(
                "an in-memory store has no address: write `memory:` or `memory:name`",
            ));
        }
        Ok(memory::connect(name).into())
    }
}
