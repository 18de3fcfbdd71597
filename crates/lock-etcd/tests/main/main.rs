//! Locks in etcd.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod conformance;
mod doubts;
mod faults;
mod logins;
mod requests;
mod support;
