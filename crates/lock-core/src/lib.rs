//! Distributed locks with leases, fencing tokens and explicit ownership.
//!
//! A [`LockFactory`] creates [`Lock`]s by name. An acquired lock is a [`LockGuard`], whose [`Hold`] can be shared. A
//! [`Backend`](backend::Backend) stores the leases. This crate contains the in-memory backend; lock-fred and
//! lock-redis-rs provide the Redis backend, through the clients `fred` and `redis`, and lock-sqlx that on SQLite.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
//! use lock_core::{LockFactory, MemoryBackend};
//!
//! let locks = LockFactory::new(MemoryBackend::new());
//! let guard = locks.named("stock:42")?.acquire().await?;   // waits; a watchdog keeps the lease
//! let token = guard.fencing_token();                       // strictly increasing per name
//! // … read and write, both checked against `token` by the resource …
//! println!("{:?}", guard.release().await);                 // no `?`: the work is already done
//! # Ok(()) }
//! ```
//!
//! # Guarantees
//! There is at most one *valid* holder per name while the store keeps its data and clocks run at the same speed
//! to within the margin. A guard notifies a holder that was paused past its lease, but only the resource can reject
//! that holder's late writes: see [`FencingToken`].
//!
//! # Rules
//! - Every lease expires by itself; the watchdog renews it whenever a third of it has passed ([`LockOptions`]).
//! - The local deadline is counted from *before* the request was sent. At its deadline a hold is lost, regardless of
//!   the network, and stays lost.
//! - Every acquisition has its own owner; re-entry is requested explicitly, by passing an [`Owner`].
//! - Every future may be dropped at any await; every guard may be dropped anywhere.
//! - All limits are finite by default ([`Limits`]).
//!
//! # Modules
//! | module | contains |
//! | --- | --- |
//! | [`backend`] | the traits of a store: [`Backend`](backend::Backend), subscriptions, connectors |
//! | [`clock`] | the clock of a factory |
//! | [`election`] | leader election |
//! | [`future`] | the futures that acquires return, for use in signatures |
//! | [`inspect`] | the holder as the store sees it, its process, lists of held locks, and forced releases |
//! | [`names`] | the types of a key's names and of the parts of a name, for use in signatures |
//! | [`observer`] | events for metrics and logs |
//! | [`permit`] | semaphores, read-write locks and fair locks |
//! | [`set`] | several locks that are acquired together |
//!
//! # Testing
//! Under tokio's paused time, the factory and the in-memory backend both need a `TestClock`, which follows that time.
//! The feature `test-util`, for dev-dependencies, provides the clock. `LockFactory::paused` creates all three:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), lock_core::LockError> {
//! use lock_core::{LockFactory, LostReason};
//!
//! let (locks, store, _clock) = LockFactory::paused();
//! let guard = locks.named("x")?.acquire().await?;
//! store.lose(guard.name());
//! assert_eq!(guard.lost().await, LostReason::Gone); // at the next renewal, which paused time reaches at once
//! # Ok(()) }
//! ```
//!
//! # Features
//! | feature | default | provides |
//! | --- | --- | --- |
//! | `macros` | off | `#[derive(LockKey)]`, which derives a value's lock name from its fields |
//! | `otel` | off | `OtelObserver`, on the OpenTelemetry API 0.33 |
//! | `test-util` | off | for tests: `LockFactory::paused`, `clock::TestClock`, and `MemoryBackend::{lose, clear, names, held, watched}` |
//! | `signal` | off | `shutdown_signal`, which completes on SIGTERM or Ctrl-C |
//! | `cancellation-token` | off | `Hold::cancellation_token`, a tokio-util token that is cancelled when the hold ends, including by a release |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod acquire;
pub mod backend;
mod blocking;
pub mod clock;
mod connect;
mod driver;
pub mod election;
mod error;
mod factory;
mod factory_builder;
mod fifo_map;
mod guard;
mod hold;
mod ids;
pub mod inspect;
mod lock;
#[cfg_attr(not(feature = "__internal"), allow(unreachable_pub))]
mod machine;
mod memory;
mod name;
pub mod observer;
#[cfg_attr(not(feature = "__internal"), allow(unreachable_pub))]
mod options;
mod owner;
pub mod permit;
pub mod set;
#[cfg(feature = "signal")]
mod signal;
mod store;
#[cfg(feature = "__stored")]
mod stored_form;
mod sync;
#[cfg(feature = "test-util")]
mod test_util;
mod time;
mod wake;
mod worker;

pub use backend::request::Retention;
pub use backend::store::Store;
pub use connect::Connectors;
pub use driver::ShutdownReport;
pub use error::{LockError, LockErrorKind, RunError};
pub use factory::LockFactory;
pub use factory_builder::LockFactoryBuilder;
pub use guard::LockGuard;
pub use hold::Hold;
pub use ids::FencingToken;
pub use lock::Lock;
#[cfg(feature = "macros")]
pub use lock_macros::LockKey;
pub use machine::{HoldEnd, LostReason, ReleaseOutcome};
pub use memory::MemoryBackend;
pub use name::{LockKey, LockName, NameError};
pub use options::{Limits, LockOptions, OptionsError};
pub use owner::Owner;
#[cfg(feature = "signal")]
pub use signal::shutdown_signal;
pub use worker::Worker;

/// The futures that acquires return, for use in signatures.
pub mod future {
    pub use crate::acquire::{AcquireFuture, TryAcquireFuture};
}

/// The types behind lock keys: the names of a key, and the parts of a name. For use in signatures.
pub mod names {
    pub use crate::name::{LockNames, NameParts};
}

/// Helpers shared by the crates of this workspace. Not covered by any promise of stability.
#[doc(hidden)]
pub mod __private {
    #[cfg(feature = "__card-json")]
    pub use crate::inspect::card_json::{MAX_CARD_BYTES, decode_card, encode_card};
    #[cfg(feature = "otel")]
    pub use crate::observer::otel::Instruments;
    pub use crate::{
        backend::{async_backend::in_background, on_worker::OnWorker, operation::Answer},
        clock::ServerClock,
        driver::has_timer,
        error::no_runtime,
        ids::Random,
        name::{TemplateName, escape as escape_part, reserved as reserved_name, semaphore_name, separates},
        observer::event::notify_all,
        store::{
            Counter as TokenCounter, Held, LEAD as TOKEN_LEAD, Pool, Ruling, Slot, draw as draw_tokens,
            expiry,
        },
        sync::lock_raw as lock,
        time::Backoff,
        wake::wake_together,
    };
}

/// The state machine and the store rules, for model checkers and simulations. Not covered by any promise of stability.
#[cfg(feature = "__internal")]
#[doc(hidden)]
pub mod model {
    pub use crate::{
        machine::*,
        options::{HandOffBudget, Keep, TermValues, Terms},
        store::{Pool, Ruling, Slot},
    };
}

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
