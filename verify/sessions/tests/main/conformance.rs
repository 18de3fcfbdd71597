//! Both stores pass the suite in real time, each property with its own keys. Another client has another session.

use super::support::{Keys, Tested};
use lock_core::Store;
use lock_testkit::conformance::Harness;

impl<P: Tested> Harness for Keys<P> {
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

mod etcd {
    use super::Keys;
    use lock_testkit::Etcd;
    lock_testkit::conformance!(Keys::<Etcd>::new(), flavor = "multi_thread", worker_threads = 1);
}

mod zookeeper {
    use super::Keys;
    use lock_testkit::ZooKeeper;
    lock_testkit::conformance!(Keys::<ZooKeeper>::new(), flavor = "multi_thread", worker_threads = 1);
}
