//! Tests of the locks on real servers of etcd and ZooKeeper. The scenarios are written once for both.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod by_hand;
mod conformance;
mod doubts;
mod elections;
mod etcd;
mod faults;
mod logins;
mod reconnections;
mod requests;
mod support;
mod zookeeper;

/// Makes a test of each scenario for each store.
macro_rules! scenarios {
    ($($(#[$meta:meta])* $name:ident)*) => {
        mod etcd {
            $($(#[$meta])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name::<lock_testkit::Etcd>().await;
            })*
        }
        mod zookeeper {
            $($(#[$meta])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name::<lock_testkit::ZooKeeper>().await;
            })*
        }
    };
}
use scenarios;
