//! Tests of the library's guarantees, with virtual time, scripted faults and real threads.

#![allow(clippy::unwrap_used)]

mod support;

mod api_names;
mod architecture;
mod bad_input;
mod blocked_threads;
mod blocking;
mod cancellation;
mod cards;
mod docs;
mod drop_anywhere;
mod election;
mod exclusion;
mod extension;
mod gauge;
mod given_up_calls;
mod hand_off;
mod health;
mod held_locks;
mod held_up;
mod imports;
mod keeper;
mod keeper_faults;
mod life;
mod limits;
mod links;
mod log;
mod log_bounds;
mod loss;
#[cfg(feature = "otel")]
mod metrics;
mod min_hold;
mod observer_panics;
mod operations;
mod outages;
mod permits;
mod pipelines;
mod prefixes;
mod reentry;
mod renewal_cost;
mod repeated_tokens;
mod replies;
mod scale;
mod sets;
mod shared_renewals;
mod shutdowns;
#[cfg(all(unix, feature = "signal"))]
mod signal;
mod silent_pipelines;
mod starvation;
mod store_answers;
mod suspended_idle;
mod testing;
mod unclaimed;
mod wakers;
mod workers;
