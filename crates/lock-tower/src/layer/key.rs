//! The settings for a layer's key.

use super::{LockLayer, with_cause};
use crate::{
    buffer::BufferRequestLayer,
    key::{BodyKey, InvalidKey, KeyError, KeyTemplate},
    typestate::{InHandler, NoKey},
};
use bytes::Bytes;
use http::request::Parts;
use lock_core::names::LockNames;
use std::sync::Arc;

impl<D> LockLayer<NoKey, D> {
    /// Sets the rule that derives the name of the lock from a request: a template or a [`KeyTemplate`].
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_tower::LockLayer;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// use lock_tower::KeyTemplate;
    ///
    /// let by_header = LockLayer::new(locks.clone()).key(KeyTemplate::of("account").header("x-account"));
    /// let constant = LockLayer::new(locks).key("report");
    /// ```
    ///
    /// # Panics
    /// Panics if the template is malformed, as axum's routes do; [`try_key`](Self::try_key) returns the error.
    #[track_caller]
    pub fn key<T>(self, key: T) -> LockLayer<KeyTemplate, D>
    where
        T: TryInto<KeyTemplate>,
        InvalidKey: From<T::Error>,
    {
        match self.try_key(key) {
            Ok(layer) => layer,
            Err(error) => panic!("{}", with_cause(&error)),
        }
    }

    /// Like [`key`](Self::key), for templates that are only known at run time.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_tower::LockLayer;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let configured = "account:{"; // read from a file
    /// assert!(LockLayer::new(locks).try_key(configured).is_err());
    /// ```
    ///
    /// # Errors
    /// An [`InvalidKey`] if the template is malformed.
    pub fn try_key<T>(self, key: T) -> Result<LockLayer<KeyTemplate, D>, InvalidKey>
    where
        T: TryInto<KeyTemplate>,
        InvalidKey: From<T::Error>,
    {
        Ok(self.with_key(key.try_into()?))
    }

    /// Sets several keys, at most 64. A request acquires all of their locks, ordered by name, so
    /// requests cannot deadlock regardless of the order of the keys. Equal names share one lock.
    /// The [`wait`](Self::wait) applies to all locks together.
    ///
    /// A handler receives its locks as a [`LockSetHandle`](crate::LockSetHandle), with a fencing
    /// token for each name. Losing any of the locks ends the request, as with a single lock.
    ///
    /// ```
    /// # #[cfg(feature = "axum")] {
    /// use axum::{Router, extract::Path, routing::post};
    /// use lock_tower::{KeyTemplate, LockLayer, LockSetHandle};
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # let locks = LockFactory::new(MemoryBackend::new());
    ///
    /// async fn transfer(Path((from, to)): Path<(u64, u64)>, locks: LockSetHandle) {}
    ///
    /// let account = |parameter| KeyTemplate::of("account").path_as::<u64>(parameter);
    /// let lock = LockLayer::new(locks).keys([account("from"), account("to")]);
    /// let app: Router = Router::new().route("/transfer/{from}/{to}", post(transfer).route_layer(lock));
    /// # }
    /// ```
    ///
    /// # Panics
    /// Panics if a template is malformed, or if there are no keys or more than 64; [`try_keys`](Self::try_keys) returns
    /// the error.
    #[track_caller]
    pub fn keys<I>(self, keys: I) -> LockLayer<KeyTemplate, D>
    where
        I: IntoIterator,
        I::Item: TryInto<KeyTemplate>,
        InvalidKey: From<<I::Item as TryInto<KeyTemplate>>::Error>,
    {
        match self.try_keys(keys) {
            Ok(layer) => layer,
            Err(error) => panic!("{}", with_cause(&error)),
        }
    }

    /// Like [`keys`](Self::keys), for templates that are only known at run time.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_tower::LockLayer;
    /// # let locks = LockFactory::new(MemoryBackend::new());
    /// let configured = ["stock", "prices"]; // read from a file
    /// let layer = LockLayer::new(locks).try_keys(configured)?;
    /// # Ok::<(), lock_tower::InvalidKey>(())
    /// ```
    ///
    /// # Errors
    /// An [`InvalidKey`] if a template is malformed, or if there are no keys or more than 64.
    pub fn try_keys<I>(self, keys: I) -> Result<LockLayer<KeyTemplate, D>, InvalidKey>
    where
        I: IntoIterator,
        I::Item: TryInto<KeyTemplate>,
        InvalidKey: From<<I::Item as TryInto<KeyTemplate>>::Error>,
    {
        Ok(self.with_key(KeyTemplate::all(keys)?))
    }

    /// Sets a function that derives the key from the head and the body of a request, for services
    /// without axum; with axum, use [`in_handler`](Self::in_handler). The body is read into memory
    /// first, within the limit, the budget and the timeout of `buffer`, and the service receives
    /// the same bytes. If the upload fails, `buffer` responds and no lock is taken.
    ///
    /// A request with an invalid name is rejected with 400. Bodies are also read for requests that
    /// need no lock.
    ///
    /// ```
    /// use lock_core::{LockFactory, LockName, MemoryBackend};
    /// use lock_tower::{BufferRequestLayer, KeyError, LockLayer};
    ///
    /// let locks = LockFactory::new(MemoryBackend::new());
    /// let buffer = BufferRequestLayer::new().limit(16 * 1024);
    /// let lock = LockLayer::new(locks).body_key(buffer, |_head, body| {
    ///     let sku: u64 = str::from_utf8(body)
    ///         .ok()
    ///         .and_then(|text| text.parse().ok())
    ///         .ok_or(KeyError::bad_request("the body is no SKU"))?;
    ///     Ok(LockName::of(("stock", sku))?)
    /// });
    /// # drop(lock);
    /// ```
    pub fn body_key<F, N>(self, buffer: BufferRequestLayer, read: F) -> LockLayer<BodyKey, D>
    where
        F: Fn(&Parts, &Bytes) -> Result<N, KeyError> + Send + Sync + 'static,
        N: Into<LockNames>,
    {
        self.with_key(BodyKey::new(buffer, read))
    }

    /// Lets the handler choose the key. The handler acquires its lock with
    /// [`Locked`](crate::Locked), whose extractor parses the key, or with a
    /// [`LockSlot`](crate::LockSlot). The layer's settings apply from then on. No lock is held
    /// before that, or if the extractor rejects the request.
    ///
    /// With an extractor that reads the body, a request starts waiting for the lock only after its body has arrived, so
    /// a slow upload does not hold the lock.
    ///
    /// ```
    /// # #[cfg(feature = "axum")] {
    /// use axum::{Router, extract::Path, routing::post};
    /// use lock_core::{LockKey, LockName, NameError, names::LockNames};
    /// use lock_tower::{LockLayer, Locked};
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # let locks = LockFactory::new(MemoryBackend::new());
    ///
    /// #[derive(Clone, Copy)]
    /// struct Sku(u64);
    ///
    /// impl LockKey for Sku { // or derived: `#[derive(LockKey)] #[lock_key("stock:{0}")]`
    ///     fn lock_names(&self) -> Result<LockNames, NameError> {
    ///         LockName::of(("stock", self.0)).map(LockNames::from)
    ///     }
    /// }
    /// # impl<'de> serde::Deserialize<'de> for Sku {
    /// #     fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
    /// #         u64::deserialize(from).map(Self)
    /// #     }
    /// # }
    ///
    /// async fn order(Locked(Path(sku), lock): Locked<Path<Sku>>) -> String {
    ///     format!("sold one {} under token {}", sku.0, lock.fencing_token())
    /// }
    ///
    /// let lock = LockLayer::new(locks);
    /// let app: Router = Router::new().route("/skus/{sku}/orders", post(order).layer(lock.in_handler()));
    /// # }
    /// ```
    ///
    /// With [`detach`](Self::detach), a handler that has its lock continues after its client
    /// disconnects. Before that, a client disconnect drops it.
    pub fn in_handler(self) -> LockLayer<InHandler, D> {
        self.with_key(InHandler(()))
    }

    fn with_key<K>(self, key: K) -> LockLayer<K, D> {
        let this = self.with(|config| config.log = Arc::default());
        LockLayer { config: this.config, key, disconnect: this.disconnect }
    }
}
