//! The stores under test, and keys of their own on servers that all tests share.

use lock_core::{LockFactory, Store, backend::Backend};
use lock_etcd::EtcdBackend;
use lock_testkit::{EtcdCluster, ZooKeeperEnsemble};
use lock_zookeeper::ZooKeeperBackend;
use std::{
    marker::PhantomData,
    net::SocketAddr,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU32, Ordering},
    },
};

/// A cluster of a store with sessions.
pub(crate) trait Cluster: Sized + Send + Sync + 'static {
    /// Parts of the request that acquires the lock `x`, and of no other one.
    const ACQUIRE: &'static [&'static [u8]];

    fn start(number: usize) -> Self;
    /// The server that all tests share.
    fn shared() -> &'static Self;
    fn address(&self, number: usize) -> SocketAddr;
    /// The URL of these servers, for nodes or keys at a place of their own.
    fn url(hosts: &str, place: &str, session: u32) -> String;
    fn connect(url: &str) -> impl Future<Output = Store> + Send;
    fn leader(&self) -> usize;
    fn stop(&self, number: usize);
    fn restart_all(&self, numbers: &[usize]);
    fn pause(&self, number: usize);
    fn resume(&self, number: usize);
}

impl Cluster for EtcdCluster {
    const ACQUIRE: &'static [&'static [u8]] = &[b"/lock/x", b"/offset"];

    fn start(number: usize) -> Self {
        Self::start(number)
    }
    fn shared() -> &'static Self {
        static SERVER: LazyLock<EtcdCluster> = LazyLock::new(|| EtcdCluster::start(1));
        &SERVER
    }
    fn address(&self, number: usize) -> SocketAddr {
        self.address(number)
    }
    fn url(hosts: &str, place: &str, session: u32) -> String {
        format!("etcd://{hosts}?prefix={place}/&session={session}s")
    }
    async fn connect(url: &str) -> Store {
        EtcdBackend::connect(url).await.unwrap().into()
    }
    fn leader(&self) -> usize {
        self.leader()
    }
    fn stop(&self, number: usize) {
        self.stop(number);
    }
    fn restart_all(&self, numbers: &[usize]) {
        self.restart_all(numbers);
    }
    fn pause(&self, number: usize) {
        self.pause(number);
    }
    fn resume(&self, number: usize) {
        self.resume(number);
    }
}

impl Cluster for ZooKeeperEnsemble {
    const ACQUIRE: &'static [&'static [u8]] = &[b"/lock/x", b"/session/", b"/owner"];

    fn start(number: usize) -> Self {
        Self::start(number)
    }
    fn shared() -> &'static Self {
        static SERVER: LazyLock<ZooKeeperEnsemble> = LazyLock::new(|| ZooKeeperEnsemble::start(1));
        &SERVER
    }
    fn address(&self, number: usize) -> SocketAddr {
        self.address(number)
    }
    fn url(hosts: &str, place: &str, session: u32) -> String {
        format!("zookeeper://{hosts}/{place}?session={session}s")
    }
    async fn connect(url: &str) -> Store {
        ZooKeeperBackend::connect(url).await.unwrap().into()
    }
    fn leader(&self) -> usize {
        self.leader()
    }
    fn stop(&self, number: usize) {
        self.stop(number);
    }
    fn restart_all(&self, numbers: &[usize]) {
        self.restart_all(numbers);
    }
    fn pause(&self, number: usize) {
        self.pause(number);
    }
    fn resume(&self, number: usize) {
        self.resume(number);
    }
}

/// The keys of a test.
pub(crate) struct Keys<C> {
    place: String,
    cluster: PhantomData<C>,
}

impl<C: Cluster> Keys<C> {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        Self { place: format!("test-{}", NUMBER.fetch_add(1, Ordering::Relaxed)), cluster: PhantomData }
    }

    /// The node under which all those of the test are, in ZooKeeper.
    pub(crate) fn root(&self) -> String {
        format!("/{}", self.place)
    }

    /// The address of the shared server.
    pub(crate) fn server() -> SocketAddr {
        C::shared().address(0)
    }

    /// A client with a session of its own, as another process has it, at these servers.
    pub(crate) async fn at(&self, hosts: &str, session: u32) -> Store {
        C::connect(&C::url(hosts, &self.place, session)).await
    }

    pub(crate) async fn store(&self) -> Store {
        self.at(&Self::server().to_string(), 40).await
    }

    pub(crate) async fn locks(&self) -> LockFactory {
        LockFactory::new(self.store().await)
    }

    /// The same, through another address.
    pub(crate) async fn through(&self, address: SocketAddr, session: u32) -> LockFactory {
        LockFactory::new(self.at(&address.to_string(), session).await)
    }

    pub(crate) async fn backend(&self, address: SocketAddr) -> Arc<dyn Backend> {
        self.at(&address.to_string(), 40).await.backend
    }
}
