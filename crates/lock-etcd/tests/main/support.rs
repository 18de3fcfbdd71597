//! Keys of their own on a server that all tests share.

use lock_core::{LockFactory, Store, backend::Backend};
use lock_etcd::EtcdBackend;
use lock_testkit::EtcdCluster;
use std::{
    net::SocketAddr,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU32, Ordering},
    },
};

static SERVER: LazyLock<EtcdCluster> = LazyLock::new(|| EtcdCluster::start(1));

/// The keys of a test.
pub(crate) struct Keys {
    url: String,
}

impl Keys {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        Self { url: format!("{}?prefix=test-{}/", SERVER.url(), NUMBER.fetch_add(1, Ordering::Relaxed)) }
    }

    /// The address of the shared server.
    pub(crate) fn server() -> SocketAddr {
        SERVER.address(0)
    }

    /// The same keys, through another address, with further parameters.
    pub(crate) async fn through(&self, address: SocketAddr, parameters: &str) -> LockFactory {
        let url = self.url.replace(&Self::server().to_string(), &address.to_string());
        let backend = EtcdBackend::connect(&format!("{url}{parameters}")).await.unwrap();
        LockFactory::builder(backend).build().unwrap()
    }

    /// The same keys, through another address.
    pub(crate) async fn backend(&self, address: SocketAddr) -> Arc<dyn Backend> {
        let url = self.url.replace(&Self::server().to_string(), &address.to_string());
        Store::from(EtcdBackend::connect(&url).await.unwrap()).backend
    }

    /// Returns a client with a session of its own, as another process has it.
    pub(crate) async fn client(&self) -> EtcdBackend {
        EtcdBackend::connect(&self.url).await.unwrap()
    }

    pub(crate) async fn store(&self) -> Store {
        self.client().await.into()
    }

    pub(crate) async fn locks(&self) -> LockFactory {
        LockFactory::new(self.client().await)
    }
}
