//! etcd passes the suite in real time, each property with its own keys. Another client has another session.

use super::support::Keys;
use lock_core::Store;
use lock_testkit::conformance::Harness;

impl Harness for Keys {
    async fn store(&self) -> Store {
        Keys::store(self).await
    }
    async fn another(&self, _: &Store) -> Store {
        Keys::store(self).await
    }
    fn wakes_by_deleting(&self) -> bool {
        true
    }
}

lock_testkit::conformance!(Keys::new(), flavor = "multi_thread", worker_threads = 1);
