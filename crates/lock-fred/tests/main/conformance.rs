//! Redis conforms, in real time: each property on a server of its own.

use lock_core::Backend;
use lock_fred::RedisBackend;
use lock_testkit::{RedisServer, conformance::Harness};
use std::sync::Arc;

struct OwnRedis(RedisServer);

impl OwnRedis {
    async fn client(&self) -> Arc<dyn Backend> {
        Arc::new(RedisBackend::connect(&self.0.url()).await.expect("a server that runs can be connected to"))
    }
}

impl Harness for OwnRedis {
    async fn backend(&self) -> Arc<dyn Backend> {
        self.client().await
    }
    async fn another(&self, _: &Arc<dyn Backend>) -> Arc<dyn Backend> {
        self.client().await
    }
}

lock_testkit::conformance!(OwnRedis(RedisServer::start()), flavor = "multi_thread", worker_threads = 1);
