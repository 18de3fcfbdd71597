//! A lock on a private Redis server with TLS.

#[path = "../../../redis/tests/suite/tls/authority.rs"]
#[allow(dead_code)] // the suite needs more of it
mod authority;

use authority::Authority;
use distlock::{
    LockFactory,
    redis::{RedisBackendBuilder, Tls},
};

pub(crate) async fn lock_over_tls() {
    let authority = Authority::new();
    let server = authority.server(&authority.signs("127.0.0.1"), false);
    let url = format!("rediss://127.0.0.1:{}", server.tls_port().expect("started with TLS"));
    let builder = RedisBackendBuilder::from_url(&url).unwrap().tls(Tls::authority(authority.pem.as_bytes()));
    let locks = LockFactory::new(builder.connect().await.unwrap());
    locks.named("stock:42").unwrap().acquire().await.unwrap().release().await.unwrap();
    locks.shutdown().await;
}
