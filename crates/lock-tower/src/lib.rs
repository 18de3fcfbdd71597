//! A distributed lock as a `tower` layer: requests with the same key run one at a time,
//! across all processes that share the store.
//!
//! ```
//! # #[cfg(feature = "axum")] {
//! use axum::{Router, extract::Path, routing::post};
//! use lock_core::{LockFactory, MemoryBackend};
//! use lock_tower::{KeyTemplate, LockHandle, LockLayer, LockedExt};
//! use std::time::Duration;
//!
//! async fn order(lock: LockHandle, Path(sku): Path<u64>) -> String {
//!     format!("sold one {sku} under token {}", lock.fencing_token())
//! }
//!
//! let locks = LockFactory::new(MemoryBackend::new()); // in production: Redis, by `lock-fred`
//! let lock = LockLayer::new(locks).wait(Duration::from_millis(500)); // for all routes
//! let sku = KeyTemplate::of("stock").path_as::<u64>("sku"); // `7` and `07` are one lock
//! let app: Router = Router::new().route("/skus/{sku}/orders", post(order).locked(&lock, sku));
//! # }
//! ```
//!
//! The lock is acquired before the handler is called, and held until the response body ends, fails
//! or is dropped. The layer responds to requests that do not acquire the lock, so the service's
//! error type is unchanged.
//!
//! # Keys
//! | key | code |
//! | --- | --- |
//! | built from path, query or headers | `post(order).locked(&lock, key)` with axum, else [`LockLayer::key`]; see [`KeyTemplate`] |
//! | a value that the handler's extractor parses: JSON, form, query, path | `Locked<Json<NewOrder>>` as an argument, behind `post(order).layer(lock.in_handler())` |
//! | built from several extractors, such as path and body | a [`LockSlot`] as an argument, behind the same layer |
//! | in the body, without axum | [`LockLayer::body_key`] |
//! | several names | [`LockLayer::keys`], or a key of several names in any of these |
//!
//! Prefer parsed values to text, so that the lock and the handler identify the same resource.
//!
//! # Responses
//! | event | default response | setting |
//! | --- | --- | --- |
//! | the lock is held, and the layer does not wait | 409 | [`on_reject`](LockLayer::on_reject) |
//! | the [`wait`](LockLayer::wait) expires (default 1 s) | 503 | [`timeout_status`](LockLayer::timeout_status) |
//! | too many waiters for the layer (1,000), the key (10,000) or the process (100,000) | 503 immediately | [`max_waiters`](LockLayer::max_waiters), lock-core's `Limits` |
//! | too many [detached](DetachedTasks) handlers are running; the factory is shut down | 503 | [`with_limit`](DetachedTasks::with_limit) |
//! | with a [`BufferRequestLayer`]: one body exceeds 2 MiB | 413 | [`limit`](BufferRequestLayer::limit) |
//! | – one upload takes longer than 30 s | 408 | [`timeout`](BufferRequestLayer::timeout) |
//! | – the bodies of all waiting requests exceed 64 MiB | 503 | [`budget`](BufferRequestLayer::budget) |
//! | the store is down | 503 | [`on_unavailable`](LockLayer::on_unavailable) |
//! | the lease is lost before the response head | the handler is dropped, 503 | [`on_lost`](LockLayer::on_lost) |
//! | the lease is lost after the response head | the body ends with the error [`LockLost`] | [`on_lost`](LockLayer::on_lost) |
//! | the client disconnects | the handler is dropped, the lock released | [`detach`](LockLayer::detach) |
//! | the hold lasts longer than 30 s | as for a lost lease | [`max_hold`](LockLayer::max_hold) |
//! | the handler panics | the lock is released, the panic continues | |
//! | the key cannot be read from the request | 400 if the client can fix it, 404 if the request matched no route, 503 if the key source did not respond, otherwise 500 | [`on_bad_key`](LockLayer::on_bad_key) |
//!
//! The 409 and every 503 include `Retry-After`, except after a lost lease, because the handler may
//! have completed part of its work.
//!
//! Rejections are `application/problem+json` (RFC 9457) with a stable `type` per reason, such as
//! `urn:problem-type:distlock:timeout`. They contain a hash of the key, never the key itself. The
//! hash uses a per-process secret, or a [`key_hash_secret`](LockLayer::key_hash_secret) shared by
//! all replicas. [`grpc`](LockLayer::grpc) turns rejections into a `grpc-status`.
//!
//! # Limits of a lock
//! - **A lock does not make requests idempotent.** Requests run one after the other, so a client
//!   that repeats a request after losing the response still orders twice. Put an `IdempotencyLayer`
//!   (module `idempotency`, feature `idempotency`) on the route, and send the same key to the
//!   services that you call.
//! - **A lock must outlive the transaction that it protects.** Commit before the response is
//!   returned. A commit in a spawned task, or after the body ends, comes after the release.
//! - **A lock can be lost while the handler runs.** Pass
//!   [`LockHandle::fencing_token`](lock_core::Hold::fencing_token) to the store that you write to,
//!   and let it reject older tokens.
//! - **The lock ends with the response.** It does not cover tasks that the handler spawns or
//!   connections that it upgrades, such as WebSockets. These need their own lock.
//! - **A dropped handler stops at an `.await`.** [Detach](LockLayer::detach) handlers that write,
//!   so that a client disconnect does not stop them halfway.
//!
//! # Slow clients
//! The lock is held while the handler reads the request body and while the client reads the
//! response. A client that sends one byte per minute blocks the key for all other clients. The
//! following settings limit this:
//! - [`max_hold`](LockLayer::max_hold) ends a hold after 30 s by default. The handler is dropped
//!   and the layer responds with 503, or the body is truncated. Set it slightly above the duration
//!   of the slowest handler. Streams that clients keep open need a longer limit, or
//!   [`no_max_hold`](LockLayer::no_max_hold).
//! - [`BufferRequestLayer`] reads the request body before the lock is acquired. Put it on every route whose
//!   handler reads a body from clients that you do not trust. The bodies of waiting requests stay in memory,
//!   64 MiB of them by default; above this [`budget`](BufferRequestLayer::budget), requests are rejected with
//!   503.
//! - [`in_handler`](LockLayer::in_handler) acquires the lock after the handler's extractor has read
//!   and parsed the request. No lock is held during the upload, which is subject to the server's
//!   limits and timeouts.
//!
//! # Outside the lock
//! A request that is rejected outside the layer does not affect other requests. Put these outside:
//! - **Authentication and authorisation.** Otherwise any client can hold a key and fill the wait
//!   queue.
//! - **Rate limits and concurrency limits**, per client and not per key.
//! - **Existence checks.** Each locked name leaves a fencing counter in the store, for an hour by
//!   default. An existence check rejects made-up names with 404 before they reach the store.
//!
//! ```
//! # #[cfg(feature = "axum")] {
//! use axum::{Router, extract::Request, middleware::{Next, from_fn}, response::Response, routing::post};
//! use lock_tower::{BufferRequestLayer, KeyTemplate, LockLayer};
//! # use lock_core::{LockFactory, MemoryBackend};
//! # let locks = LockFactory::new(MemoryBackend::new());
//! # async fn order() {}
//! # async fn login(request: Request, next: Next) -> Response { next.run(request).await }
//! # async fn sku_exists(request: Request, next: Next) -> Response { next.run(request).await }
//!
//! let order = post(order) // the layer that is added last comes first
//!     .route_layer(LockLayer::new(locks).key(KeyTemplate::of("stock").path_as::<u64>("sku")))
//!     .route_layer(BufferRequestLayer::new())
//!     .route_layer(from_fn(sku_exists))
//!     .route_layer(from_fn(login));
//! let app: Router = Router::new().route("/skus/{sku}/orders", order);
//! # }
//! ```
//!
//! # Placement
//! With axum, put the layer on the method: `post(order).locked(&lock, key)`, which is short for
//! `post(order).route_layer(lock.key(key))`, or `post(order.layer(lock))` for the handler alone. `Router::route_layer`,
//! `Router::layer` and `MethodRouter::layer` also wrap the responses of other methods: a GET that would be rejected
//! with 405, and the OPTIONS of a CORS preflight, then wait for the lock and are rejected with 503 while it is held. In
//! `get(list).merge(post(create).locked(&lock, key))`, reads of the same path need no lock.
//!
//! Path templates read axum's path parameters. They are available in all of these places, but not
//! in a service that wraps the `Router`. If the route lacks a parameter, its
//! requests are rejected with 500 and take no lock. The route's actual parameters are logged once.
//!
//! `Router::layer` also wraps the router's fallback. With a key from the path, the layer responds to requests that
//! matched no route, with 404, since a fallback must not work without its lock. A fallback that is added after the
//! layer is outside of it.
//!
//! Put concurrency limits and timeouts outside this layer. A timeout inside it does not include the
//! wait. The release is sent in the background when the body ends. A client that sends its next
//! request immediately may have to wait for one round trip, so prefer a short wait to none.
//!
//! # Two layers around one handler
//! <div class="warning">
//!
//! Two stacked layers acquire their locks one after the other. If `/transfer/1/2` acquires account 1 and then
//! 2, and `/transfer/2/1` acquires 2 and then 1, they can block each other, and both are rejected
//! with 503 after the [`wait`](LockLayer::wait). Under load, this happens to nearly all such
//! requests.
//!
//! </div>
//!
//! Stack layers only if all requests that share a key acquire the keys in the same order, for
//! example the tenant before the account. Otherwise, use one layer with several
//! [`keys`](LockLayer::keys): `/transfer/1/2` and `/transfer/2/1` then acquire both accounts in the
//! same order. With two layers on the same key, the inner one waits for the outer one until its
//! wait expires. If two layers are created by [`in_handler`](LockLayer::in_handler), the handler
//! uses only the inner one. Use a single layer with a key of several names instead.
//!
//! # Permits
//! A [`PermitLayer`] has the same keys, policies and rejections, and serves up to *n* requests per key at a time in the
//! whole fleet. It also limits outgoing calls, around a client.
//!
//! # Behind a proxy
//! After a 503, a proxy can retry the request at another server. This is correct for most
//! rejections, since no work was done. After `lost`, the handler was dropped at an `.await` and may
//! have completed part of its work.
//! - nginx retries GET, PUT and DELETE with `proxy_next_upstream http_503`, and also POST and PATCH
//!   with `non_idempotent` (or before 1.9.13). Leave both out for locked routes.
//!   `proxy_next_upstream error timeout`, the default, still retries a PUT or DELETE whose response
//!   took longer than `proxy_read_timeout`: set that above `wait` + `max_hold`, or use
//!   `proxy_next_upstream off`.
//! - The same applies to Envoy's `retry_on: 5xx` and `gateway-error`, and to HAProxy's
//!   `retry-on 503`.
//!
//! To keep retries for other rejections, respond to `lost` with a status that the proxy does not
//! retry, such as 500. Envoy's `5xx` retries this status too.
//! ```
//! # use lock_core::{LockFactory, MemoryBackend};
//! # let locks = LockFactory::new(MemoryBackend::new());
//! use http::StatusCode;
//! use lock_tower::{LockLayer, RejectReason};
//!
//! let lock = LockLayer::new(locks).key("report").on_reject(|rejection| match rejection.reason() {
//!     RejectReason::Lost(_) => rejection.with_status(StatusCode::INTERNAL_SERVER_ERROR).into_problem_response(),
//!     _ => rejection.into_problem_response(),
//! });
//! ```
//! A handler that must not run twice needs an idempotency key, regardless of the proxy.
//!
//! # Observability
//! Each request that needs a lock has a `tracing` span with the route, a hash of its key, the
//! outcome and the wait. An [`observer`] receives the same data as events. The feature `otel` adds
//! metrics per route.
//!
//! # Features
//! | feature | default | provides |
//! | --- | --- | --- |
//! | `axum` | off | path templates, `LockedExt`, the extractors `Locked`, [`LockSlot`], [`LockHandle`] and [`LockStatus`], the matched route as a label |
//! | `idempotency` | off | the module `idempotency`: requests with an `Idempotency-Key` run once, and their response is replayed |
//! | `sqlite`, `postgres` | off | idempotency records in SQLite or PostgreSQL, through sqlx 0.9, which needs Rust 1.94 |
//! | `sqlx-any` | off | the same through sqlx's `Any`; the program enables the databases as features of sqlx |
//! | `otel` | off | `observer::OtelLayerObserver`, on the OpenTelemetry API 0.33 |
//!
//! With axum: `lock-tower = { path = "…/crates/lock-tower", features = ["axum"] }`. Without it,
//! keys come from headers, the query or a function, and the handler finds its lock in the request
//! extensions.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod body;
mod buffer;
mod config;
mod detach;
#[cfg(feature = "axum")]
mod extract;
mod handle;
#[cfg(feature = "idempotency")]
pub mod idempotency;
mod in_handler;
mod key;
mod layer;
#[cfg(feature = "axum")]
mod locked_ext;
mod log;
pub mod observer;
mod permit;
mod policy;
mod reject;
mod request;
pub mod service;

pub use body::LockLost;
pub use buffer::BufferRequestLayer;
pub use detach::{DetachedTasks, DrainTimeout};
#[cfg(feature = "axum")]
pub use extract::{Locked, LockedRejection};
pub use handle::{LockHandle, LockMissing, LockSetHandle, LockStatus, PermitHandle, PermitStatus};
pub use in_handler::LockSlot;
pub use key::{InvalidKey, KeyError, KeyParts, KeyTemplate};
pub use layer::LockLayer;
#[cfg(feature = "axum")]
pub use locked_ext::LockedExt;
pub use permit::PermitLayer;
pub use policy::{OnLost, ReleaseOn, WithoutLock};
pub use reject::{BoxError, KeyHash, RejectReason, Rejection};

/// The README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
