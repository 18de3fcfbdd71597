//! The part of distributed locks that stores with sessions share: etcd, whose keys end with a lease, and ZooKeeper, whose
//! ephemeral nodes end with a session.
//!
//! Applications use it through lock-etcd or lock-zookeeper. An engine implements [`SessionStore`] with the requests of
//! its store, and [`SessionLocks`] fulfils the [contract](lock_core::backend::Backend#contract) of stores with them:
//!
//! - a lease that is shorter than the session ends because this process [deletes its lock](Ends);
//! - an acquire that arrives late is refused, since the [marker](SessionStore#the-marker) of its session has another version;
//! - an attempt of unknown outcome is followed by a new marker before the next attempt, and before the answer to a release
//!   that finds nothing.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod ends;
mod locks;
mod servers_url;
mod sessions;
mod store;

pub use ends::Ends;
pub use locks::{SessionLocks, lost_meanwhile};
pub use servers_url::ServersUrl;
pub use sessions::Sessions;
pub use store::{OwnLock, Session, SessionStore, Stored, Take};

/// The README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
