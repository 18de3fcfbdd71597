//! The same properties as without TLS, on every topology. One deployment serves all tests of a topology, because their
//! names do not collide.

use super::{
    super::{
        cluster,
        conformance::least_rights,
        support::{quorum, redis},
    },
    authority::Authority,
};
use lock_core::Store;
use lock_ledger::RunLedger;
use lock_testkit::{
    RedisCluster, RedisQuorum, RedisSentinels, RedisServer, TlsFiles,
    conformance::{Harness, LedgerHarness},
};
use std::sync::{Arc, LazyLock};

/// Signs the certificates of all these servers.
static AUTHORITY: LazyLock<Authority> = LazyLock::new(Authority::new);

fn files() -> TlsFiles {
    static FILES: LazyLock<TlsFiles> = LazyLock::new(|| AUTHORITY.tls(&AUTHORITY.signs("127.0.0.1"), false));
    FILES.clone()
}

/// Returns the URL of a client that has the least permissions and trusts the authority.
fn secured(url: &str) -> String {
    format!("{}?authority={}", url.replace("://", "://locks:change-me@"), AUTHORITY.file().display())
}

/// A topology other than a quorum, with the URL of its deployment.
struct Secured(&'static LazyLock<String>);

impl Harness for Secured {
    async fn store(&self) -> Store {
        redis(self.0).await.into()
    }
    async fn another(&self, _: &Store) -> Store {
        redis(self.0).await.into()
    }
}

impl LedgerHarness for Secured {
    async fn ledger(&self) -> Arc<dyn RunLedger> {
        Arc::new(redis(self.0).await)
    }
    async fn another_ledger(&self, _: &Arc<dyn RunLedger>) -> Arc<dyn RunLedger> {
        Arc::new(redis(self.0).await)
    }
}

/// Runs the suites of locks and of the ledger. The deployment lives as long as the tests.
macro_rules! topology {
    ($name:ident, $deployment:ty, $start:expr, $url:expr) => {
        mod $name {
            use super::*;

            static DEPLOYMENT: LazyLock<$deployment> = LazyLock::new(|| $start);
            static URL: LazyLock<String> = LazyLock::new(|| {
                let url: fn(&$deployment) -> String = $url;
                secured(&url(&DEPLOYMENT))
            });
            lock_testkit::conformance!(Secured(&URL), flavor = "multi_thread", worker_threads = 1);

            mod ledger {
                use super::*;
                lock_testkit::ledger_conformance!(Secured(&URL), flavor = "multi_thread", worker_threads = 1);
            }
        }
    };
}

topology!(
    standalone,
    RedisServer,
    RedisServer::builder().tls(files()).user(&least_rights()).start(),
    super::super::url
);

topology!(
    sentinel,
    RedisSentinels,
    RedisSentinels::with(
        |server| server.tls(files()).user(&least_rights()),
        |sentinel| sentinel.tls(files()),
    ),
    RedisSentinels::tls_url
);

topology!(
    cluster_of_six,
    RedisCluster,
    RedisCluster::with(|server| {
        server.tls(files()).config("tls-cluster", "yes").user(&cluster::conformance::rights())
    }),
    RedisCluster::tls_url
);

mod quorum_of_three {
    use super::*;

    static NODES: LazyLock<RedisQuorum> =
        LazyLock::new(|| RedisQuorum::with(3, |server| server.tls(files()).user(&least_rights())));

    struct Quorum;

    impl Quorum {
        async fn client() -> Store {
            quorum(&format!("{}&max_lease=1h&durable=true", secured(&NODES.tls_url()))).await.into()
        }
    }

    impl Harness for Quorum {
        async fn store(&self) -> Store {
            Self::client().await
        }
        async fn another(&self, _: &Store) -> Store {
            Self::client().await
        }
    }

    lock_testkit::conformance!(Quorum, flavor = "multi_thread", worker_threads = 1);
}
