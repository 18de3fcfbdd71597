//! Logins, rights and TLS of etcd.

use super::support::{connect, is_refused, is_usable};
use lock_core::{LockErrorKind, LockOptions};
use lock_testkit::{Etcd, EtcdCluster};
use std::time::Duration;
use tokio::{
    task::block_in_place,
    time::{sleep, timeout},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn user_needs_a_login_and_rights() {
    let cluster = block_in_place(|| EtcdCluster::start(1));
    let address = cluster.address(0);
    // A login is not needed yet.
    is_usable::<Etcd>(&format!("etcd://shop:secret@{address}")).await;
    block_in_place(|| {
        for user in ["root", "shop", "guest"] {
            cluster.api("/v3/auth/user/add", &format!("{{\"name\": \"{user}\", \"password\": \"secret\"}}"));
        }
        cluster.api("/v3/auth/role/add", r#"{"name": "root"}"#);
        cluster.api("/v3/auth/role/add", r#"{"name": "locks"}"#);
        // Keys from `distlock/` to `distlock0`.
        let permission = r#"{"name": "locks", "perm": {"permType": "READWRITE", "key": "ZGlzdGxvY2sv", "range_end": "ZGlzdGxvY2sw"}}"#;
        cluster.api("/v3/auth/role/grant", permission);
        cluster.api("/v3/auth/user/grant", r#"{"user": "root", "role": "root"}"#);
        cluster.api("/v3/auth/user/grant", r#"{"user": "shop", "role": "locks"}"#);
        cluster.api("/v3/auth/enable", "{}");
    });
    is_usable::<Etcd>(&format!("etcd://shop:secret@{address}")).await;
    is_refused::<Etcd>(&format!("etcd://{address}"), LockErrorKind::Backend, "needs a login").await;
    is_refused::<Etcd>(&format!("etcd://shop:other@{address}"), LockErrorKind::Backend, "login was refused")
        .await;
    is_refused::<Etcd>(
        &format!("etcd://guest:secret@{address}"),
        LockErrorKind::Backend,
        "readwrite on the keys",
    )
    .await;
}

/// The users of a cluster change, so its streams know an old login. A watch is refused on such a stream, and made on a new
/// one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_with_an_old_login_is_made_again() {
    let cluster = block_in_place(|| EtcdCluster::start(1));
    block_in_place(|| {
        for user in ["root", "shop"] {
            cluster.api("/v3/auth/user/add", &format!("{{\"name\": \"{user}\", \"password\": \"secret\"}}"));
        }
        cluster.api("/v3/auth/role/add", r#"{"name": "root"}"#);
        cluster.api("/v3/auth/user/grant", r#"{"user": "root", "role": "root"}"#);
        cluster.api("/v3/auth/user/grant", r#"{"user": "shop", "role": "root"}"#);
        cluster.api("/v3/auth/enable", "{}");
    });
    let url = format!("etcd://root:secret@{}", cluster.address(0));
    let (locks, others) = (connect::<Etcd>(&url).await, connect::<Etcd>(&url).await);
    let wait_for = async |name: &'static str| {
        let guard = others.named(name).unwrap().acquire().await.unwrap();
        let options = LockOptions::default().poll_interval(Duration::from_secs(600));
        let lock = locks.named(name).unwrap().with_options(options).unwrap();
        let waiting = tokio::spawn(lock.acquire_timeout(Duration::from_secs(600)));
        // It subscribes again every 5 s.
        sleep(Duration::from_secs(6)).await;
        guard.release().await.unwrap();
        let newer = timeout(Duration::from_secs(10), waiting).await.expect("it is woken").unwrap().unwrap();
        newer.release().await.unwrap();
    };
    wait_for("x").await;
    let answer =
        block_in_place(|| cluster.api("/v3/auth/authenticate", r#"{"name": "root", "password": "secret"}"#));
    let (_, token) = answer.split_once("\"token\":\"").unwrap();
    let token = token.split('"').next().unwrap();
    block_in_place(|| {
        cluster.api_as(token, "/v3/auth/disable", "{}");
        cluster.api("/v3/auth/enable", "{}");
    });
    wait_for("y").await;
}

#[cfg(feature = "tls")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_encrypted() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let cluster = block_in_place(|| EtcdCluster::with_tls(&certificate, &key));
    let address = cluster.encrypted_address(0);
    is_usable::<Etcd>(&format!("etcds://{address}?ca={}", certificate.display())).await;
    // The system does not know this authority.
    is_refused::<Etcd>(&format!("etcds://{address}"), LockErrorKind::Unavailable, "").await;
    let url = format!("etcds://{address}?ca=/missing");
    is_refused::<Etcd>(&url, LockErrorKind::InvalidUrl, "cannot be read").await;
}
