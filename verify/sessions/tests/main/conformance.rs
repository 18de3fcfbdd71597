//! Both stores pass the suite in real time, each property with its own keys. Another client has another session.

use super::support::{Cluster, Keys};
use lock_core::Store;
use lock_testkit::conformance::Harness;

impl<C: Cluster> Harness for Keys<C> {
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
    use lock_testkit::EtcdCluster;
    lock_testkit::conformance!(Keys::<EtcdCluster>::new(), flavor = "multi_thread", worker_threads = 1);
}

mod zookeeper {
    use super::Keys;
    use lock_testkit::ZooKeeperEnsemble;
    lock_testkit::conformance!(Keys::<ZooKeeperEnsemble>::new(), flavor = "multi_thread", worker_threads = 1);
}
