//! The stores under test, and keys of their own on servers that all tests share.

use lock_core::{
    LockError, LockErrorKind, LockFactory, Store,
    backend::{Backend, Connector},
};
use lock_testkit::{Cluster, Etcd, Program, ZooKeeper};
use std::{
    error::Error as _,
    marker::PhantomData,
    net::SocketAddr,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU32, Ordering},
    },
};

/// A store with sessions.
pub(crate) trait Tested: Program {
    const CONNECTOR: &'static dyn Connector;
    /// Parts of the request that acquires the lock `x`, and of no other one.
    const ACQUIRE: &'static [&'static [u8]];

    /// The server that all tests share.
    fn shared() -> &'static Cluster<Self>;
    /// The URL of these servers, for nodes or keys at a place of their own.
    fn url(hosts: &str, place: &str, session: u32) -> String;
}

impl Tested for Etcd {
    const CONNECTOR: &'static dyn Connector = &lock_etcd::Etcd;
    const ACQUIRE: &'static [&'static [u8]] = &[b"/lock/x", b"/offset"];

    fn shared() -> &'static Cluster<Self> {
        static SERVER: LazyLock<Cluster<Etcd>> = LazyLock::new(|| Cluster::start(1));
        &SERVER
    }
    fn url(hosts: &str, place: &str, session: u32) -> String {
        format!("etcd://{hosts}?prefix={place}&session={session}s")
    }
}

impl Tested for ZooKeeper {
    const CONNECTOR: &'static dyn Connector = &lock_zookeeper::ZooKeeper;
    const ACQUIRE: &'static [&'static [u8]] = &[b"/lock/x", b"/session/", b"/owner"];

    fn shared() -> &'static Cluster<Self> {
        static SERVER: LazyLock<Cluster<ZooKeeper>> = LazyLock::new(|| Cluster::start(1));
        &SERVER
    }
    fn url(hosts: &str, place: &str, session: u32) -> String {
        format!("zookeeper://{hosts}/{place}?session={session}s")
    }
}

/// Connects to a store, as another process does.
pub(crate) async fn connect<P: Tested>(url: &str) -> LockFactory {
    LockFactory::new(P::CONNECTOR.connect(url).await.unwrap())
}

pub(crate) async fn is_usable<P: Tested>(url: &str) {
    connect::<P>(url).await.named("x").unwrap().acquire().await.unwrap().release().await.unwrap();
}

/// Connecting fails with this remedy, and without the password.
pub(crate) async fn is_refused<P: Tested>(url: &str, kind: LockErrorKind, remedy: &str) {
    let error: LockError = P::CONNECTOR.connect(url).await.map(drop).unwrap_err();
    let source = error.source().map(ToString::to_string).unwrap_or_default();
    let text = format!("{error} {source}");
    assert_eq!(error.kind(), kind, "{text}");
    assert!(text.contains(remedy) && !text.contains("secret"), "{text}");
}

/// The keys of a test.
pub(crate) struct Keys<P> {
    place: String,
    program: PhantomData<P>,
}

impl<P: Tested> Keys<P> {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        Self { place: format!("test-{}", NUMBER.fetch_add(1, Ordering::Relaxed)), program: PhantomData }
    }

    /// The node under which all those of the test are, in ZooKeeper.
    pub(crate) fn root(&self) -> String {
        format!("/{}", self.place)
    }

    /// The address of the shared server.
    pub(crate) fn server() -> SocketAddr {
        P::shared().address(0)
    }

    /// A client with a session of its own, as another process has it, at these servers.
    pub(crate) async fn at(&self, hosts: &str, session: u32) -> Store {
        P::CONNECTOR.connect(&P::url(hosts, &self.place, session)).await.unwrap()
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
