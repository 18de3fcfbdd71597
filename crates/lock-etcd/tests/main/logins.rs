//! Logins, rights and TLS.

use lock_core::{LockErrorKind, LockFactory};
use lock_etcd::EtcdBackend;
use lock_testkit::{EtcdCluster, unused_address};
use std::error::Error as _;
use tokio::task::block_in_place;

async fn is_refused(url: &str, kind: LockErrorKind, remedy: &str) {
    let error = EtcdBackend::connect(url).await.unwrap_err();
    let source = error.source().map(ToString::to_string).unwrap_or_default();
    let text = format!("{error} {source}");
    assert_eq!(error.kind(), kind, "{text}");
    assert!(text.contains(remedy) && !text.contains("secret"), "{text}");
}

async fn is_usable(url: &str) {
    let locks = LockFactory::new(EtcdBackend::connect(url).await.unwrap());
    locks.named("x").unwrap().acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn user_needs_a_login_and_rights() {
    let cluster = block_in_place(|| EtcdCluster::start(1));
    let address = cluster.address(0);
    // A login is not needed yet.
    is_usable(&format!("etcd://shop:secret@{address}")).await;
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
    is_usable(&format!("etcd://shop:secret@{address}")).await;
    is_refused(&format!("etcd://{address}"), LockErrorKind::Backend, "needs a login").await;
    is_refused(&format!("etcd://shop:other@{address}"), LockErrorKind::Backend, "login was refused").await;
    is_refused(&format!("etcd://guest:secret@{address}"), LockErrorKind::Backend, "readwrite on the keys")
        .await;
}

/// The first server of the URL is down, and the second one hangs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_do_not_answer_are_passed_over() {
    let (cluster, hung) = block_in_place(|| (EtcdCluster::start(1), EtcdCluster::start(1)));
    block_in_place(|| hung.pause(0));
    is_usable(&format!("etcd://{},{},{}", unused_address(), hung.address(0), cluster.address(0))).await;
    block_in_place(|| hung.resume(0));
}

#[tokio::test]
async fn cluster_that_is_not_there_is_unavailable() {
    let url = format!("etcd://{}", unused_address());
    is_refused(&url, LockErrorKind::Unavailable, "Connection refused").await;
    // Nothing was sent, so there is nothing to undo.
    let locks = LockFactory::new(EtcdBackend::connect_lazy(&url).unwrap());
    assert!(locks.named("x").unwrap().try_acquire().await.is_err());
    locks.shutdown().await;
}

#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc-rs"))]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_encrypted() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let cluster = block_in_place(|| EtcdCluster::with_tls(&certificate, &key));
    let address = cluster.encrypted_address(0);
    is_usable(&format!("etcds://{address}?ca={}", certificate.display())).await;
    // The system does not know this authority.
    is_refused(&format!("etcds://{address}"), LockErrorKind::Unavailable, "").await;
    let error = EtcdBackend::connect(&format!("etcds://{address}?ca=/missing")).await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::InvalidUrl);
}
