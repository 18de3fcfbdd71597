//! Tests of lock-redis with a client whose server is scripted and in memory, so that no rule depends on a client
//! library. Time is virtual.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod acknowledging;
mod batching;
mod completing;
mod connecting;
mod moving;
mod reconnecting;
mod releasing;
mod replies;
mod requests;
mod scripted;
mod secrets;
mod starting;
mod subscribing;
mod support;
