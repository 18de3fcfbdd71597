//! An idempotency layer: the request of an `Idempotency-Key` is executed once, and its response is replayed to each
//! retry.
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
//! let store = MemoryIdempotencyStore::new(); // in production: `PostgresIdempotencyStore`
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
//! | the first of its key | that of the handler |
//! | a retry after the response | the stored status, headers and body, with `Idempotent-Replayed: true` |
//! | a retry while the first is executed, even on another server | waits as long as the lock's [`wait`](crate::LockLayer::wait), then 409 with `Retry-After` |
//! | the key with another method, path, query or body | 422 |
//! | without a key | 400, or passed through if it is [`optional`](IdempotencyLayer::optional) |
//! | a key above 255 bytes, malformed, or given twice | 400 |
//! | a retry of a response above [`max_answer`](IdempotencyLayer::max_answer) | 410, with the status of the response |
//! | the store fails before the handler is called | 503 with `Retry-After` |
//!
//! The key is bare text or a quoted string, as in the draft. Rejections are those of the lock's layer: problem+json, or
//! the response of its [`on_reject`](crate::LockLayer::on_reject).
//!
//! # Stored responses
//! | end of the handler | stored | a retry |
//! | --- | --- | --- |
//! | 2xx, 3xx, 402, 408, 5xx | yes | receives the same response |
//! | 4xx other than 402 and 408 | no, and the key is free | runs the handler, even with a corrected payload |
//! | the same, from attempt 2 on | no, and the key stays with its payload | runs the handler again, as attempt 3 |
//! | a response with an [`Execution`] | as that says | |
//! | the client leaves | as its response: the handler finishes in its task | receives the response |
//! | its lock is lost, it panics, its service or its body fails, its server dies | no | runs the handler again, as [`Attempt`] 2 |
//! | its response cannot be stored, since the store fails | no: it is sent, and logged as an error | runs the handler again, as attempt 2 |
//!
//! A 500 is stored because the work may have been done before it, and so is the 408 of a timeout inside of this layer.
//! A client that wants to try again sends a new key. Put a layer that turns panics into a 500 inside of this one to
//! have that stored as well.
//!
//! # The claim of a running request
//! The lock of the key is the claim: it is named `idempotency:<key>:<scope>`, is renewed while the handler runs, and is
//! free after its lease if the server dies. The record in the store holds the fencing token of the attempt that began
//! last. A handler that outlives its lock is stopped, and a response under an older token is refused by the store, so a
//! stale response is neither stored nor sent.
//!
//! # Applications that share a database
//! A record has the name of its lock in the store, with the [prefix](lock_core::LockFactoryBuilder::prefix) of the
//! factory. Give each application a prefix: without one, two applications with one table, and the same key and scope,
//! receive each other's responses, even if each has its own Redis. An invalid prefix is refused when the factory is
//! built ([`OptionsError::InvalidPrefix`](lock_core::OptionsError::InvalidPrefix)).
//!
//! # Exactly once
//! <div class="warning">
//!
//! The layer alone does not make effects happen exactly once. A server that dies after the payment and before the
//! response is stored leaves an attempt without a response, and the retry runs the handler again. [`Attempt::number`]
//! is then above 1: look for the effects of the earlier attempt.
//!
//! </div>
//!
//! If the effects are rows in the database of the records, store the response in their transaction: both are committed,
//! or neither. This is the form for payments. With [`recorded_by_handler`](IdempotencyLayer::recorded_by_handler), the
//! handler calls `complete_in` before its commit. It fails if a newer attempt owns the key, and the transaction is
//! rolled back.
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
//! An effect elsewhere, such as a charge at a payment provider, needs an idempotency key there: send the same one with
//! each attempt.
//!
//! # Placement
//! Put it on the routes that write, inside of authentication and rate limits. Other locks belong inside of it: their
//! rejections are not stored if they may be retried, whatever their [`on_reject`](crate::LockLayer::on_reject) returns.
//! Compression belongs outside, since it depends on the client. Trailers are not stored, so it is not for gRPC.

mod attempt;
mod bytes_body;
mod execution;
mod fingerprint;
mod key;
mod layer;
mod memory;
mod record;
mod service;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod sql;
mod store;

pub use attempt::Attempt;
pub use execution::Execution;
pub use fingerprint::Fingerprint;
pub use layer::IdempotencyLayer;
pub use memory::MemoryIdempotencyStore;
pub use service::IdempotencyService;
#[cfg(feature = "postgres")]
pub use sql::PostgresIdempotencyStore;
#[cfg(feature = "sqlite")]
pub use sql::SqliteIdempotencyStore;
pub use store::{BeginRequest, Begun, IdempotencyStore, StoreError};
