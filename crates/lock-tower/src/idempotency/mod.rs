//! An idempotency layer that executes the request for an `Idempotency-Key` once and replays its
//! response for each retry.
//!
//! It follows the IETF draft "The Idempotency-Key HTTP Header Field" and the rules of Stripe's API.
//!
//! ```
//! # #[cfg(feature = "axum")] {
//! use axum::{Router, routing::post};
//! use lock_core::{LockFactory, MemoryBackend};
//! use lock_tower::{
//!     DetachedTasks, KeyError, LockLayer,
//!     idempotency::{IdempotencyLayer, MemoryIdempotencyStore},
//! };
//!
//! #[derive(Clone)]
//! struct User(String); // inserted by your login
//!
//! async fn pay() {}
//!
//! let locks = LockFactory::new(MemoryBackend::new()); // in production: Redis
//! let store = MemoryIdempotencyStore::new(); // in production: `PostgresIdempotencyStore`, over a pool with `acquire_timeout(5 s)`
//! let tasks = DetachedTasks::new(); // wait for them when shutting down
//! let idempotent = IdempotencyLayer::scoped(LockLayer::new(locks).detach(&tasks), store, |request| {
//!     let user = request.extensions.get::<User>().ok_or(KeyError::misconfigured("no user: is there a login?"))?;
//!     Ok(user.0.clone())
//! });
//! let app: Router = Router::new().route("/payments", post(pay).route_layer(idempotent));
//! # }
//! ```
//!
//! # Responses
//! | request | response |
//! | --- | --- |
//! | the first with its key | the handler's response |
//! | a retry after the response | the stored status, headers and body, with `Idempotent-Replayed: true` |
//! | a retry while the first is executed, even on another server | waits up to the lock's [`wait`](crate::LockLayer::wait), then 409 with `Retry-After` |
//! | the key with another method, path, query or body | 422 |
//! | without a key | 400, or passed through if it is [`optional`](IdempotencyLayer::optional) |
//! | a key that is longer than 255 bytes, malformed, or sent twice | 400 |
//! | a retry after a response larger than [`max_answer`](IdempotencyLayer::max_answer) | 410, with the status of the response |
//! | the store does not respond within the [`store_timeout`](IdempotencyLayer::store_timeout), or returns an error, before the handler is called | 503 with `Retry-After` |
//! | the lock is lost before the handler is called | 503 with `Retry-After`: nothing was done |
//! | the lock is lost while the handler runs | 503 without `Retry-After`: part of the work may have been done |
//!
//! The key is bare text or a quoted string, as in the draft. Rejections are those of the lock
//! layer: problem+json, or the response from its [`on_reject`](crate::LockLayer::on_reject).
//!
//! # Stored responses
//! | handler outcome | stored | a retry |
//! | --- | --- | --- |
//! | 2xx, 3xx, 402, 408, 5xx | yes | receives the same response |
//! | 4xx other than 402 and 408 | no, and the key is free | runs the handler, even with a corrected payload |
//! | the same, from attempt 2 on | no, and the key stays tied to its payload | runs the handler again, as attempt 3 |
//! | a response with an [`Execution`] | as declared | |
//! | the client disconnects | as above: the handler finishes in its task | receives the response |
//! | the lock is lost, the handler panics, the service or body fails, the server crashes | no | runs the handler again, as [`Attempt`] 2 |
//! | the response cannot be stored, because the store does not respond in time or returns an error | no: it is sent, and an error is logged | runs the handler again, as attempt 2 |
//!
//! A 500 is stored because the work may have been done before the failure. The same applies to a 408 from a timeout
//! inside this layer. To run the request again, the client must send a new key. A response is read to its end, or up to
//! [`max_answer`](IdempotencyLayer::max_answer), before its head is sent. A stream without an end, such as server-sent
//! events, therefore sends nothing until the lock's [`max_hold`](crate::LockLayer::max_hold), and is then rejected as
//! lost. Keep such routes outside of this layer.
//!
//! To store panics too, put a layer that converts them to a 500 inside this one.
//!
//! # The claim of a running request
//! A running request claims its key with the lock `idempotency:<key>:<scope>`. The lock is renewed
//! while the handler runs, and expires after its lease if the server crashes. The record in the
//! store contains the fencing token of the latest attempt. A handler that outlives its lock is
//! stopped, unless a layer inside of this one has detached it, and the store rejects responses with
//! older tokens. A stale response is neither stored nor sent.
//!
//! # Applications that share a database
//! A record has the same name as its lock in the store, including the factory's
//! [prefix](lock_core::LockFactoryBuilder::prefix). Give each application its own prefix.
//! Otherwise, applications that share a table receive each other's responses for the same key and
//! scope, even if each has its own Redis. An invalid prefix is rejected when the factory is built
//! ([`LockErrorKind::InvalidOptions`](lock_core::LockErrorKind::InvalidOptions)).
//!
//! # Exactly once
//! <div class="warning">
//!
//! The layer alone does not guarantee exactly-once effects. If a server crashes after the payment
//! and before the response is stored, the retry runs the handler again. [`Attempt::number`] is then
//! above 1, and the handler must check for effects of the earlier attempt.
//!
//! </div>
//!
//! If the effects are rows in the same database as the records, store the response in their
//! transaction, so that both are committed or neither. Use this for payments. With
//! [`recorded_by_handler`](IdempotencyLayer::recorded_by_handler), the handler calls `complete_in`
//! before its commit. The call fails if a newer attempt owns the key, and the transaction is rolled
//! back.
//!
//! ```
//! # #[cfg(all(feature = "axum", feature = "sqlite"))] {
//! use axum::{body::{Body, Bytes}, response::Response};
//! use lock_tower::{BoxError, idempotency::{Attempt, SqliteIdempotencyStore}};
//!
//! async fn pay(pool: sqlx::SqlitePool, attempt: Attempt) -> Result<Response, BoxError> {
//!     let mut tx = pool.begin_with("begin immediate").await?;
//!     sqlx::query("insert into payments (cents) values (700)").execute(&mut *tx).await?;
//!     let receipt = http::Response::builder().status(201).body(Bytes::from("paid 7.00"))?;
//!     SqliteIdempotencyStore::complete_in(&mut tx, &attempt, &receipt).await?; // an error rolls back
//!     tx.commit().await?;
//!     Ok(receipt.map(Body::from))
//! }
//! # }
//! ```
//!
//! An effect in another system, such as a charge at a payment provider, needs its own idempotency
//! key. Send the same key with each attempt.
//!
//! # Placement
//! Put the layer on routes that write, inside authentication and rate limits. Other lock layers
//! belong inside it. Their retryable rejections are not stored, regardless of
//! [`on_reject`](crate::LockLayer::on_reject). Compression belongs outside, since it depends on the
//! client. Trailers are not stored, so gRPC is not supported.

mod attempt;
mod layer;
mod request;
mod response;
mod service;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "sqlx-any"))]
mod sql;
mod store;

pub use attempt::{Attempt, Execution};
pub use layer::IdempotencyLayer;
pub use request::Fingerprint;
#[cfg(feature = "sqlx-any")]
pub use sql::AnyIdempotencyStore;
#[cfg(feature = "postgres")]
pub use sql::PostgresIdempotencyStore;
#[cfg(feature = "sqlite")]
pub use sql::SqliteIdempotencyStore;
pub use store::{BeginRequest, Begun, IdempotencyStore, MemoryIdempotencyStore, StoreError};
