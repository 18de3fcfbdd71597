//! Logins, rights, sessions and TLS of ZooKeeper.

use lock_core::{LockErrorKind, LockFactory};
use lock_testkit::{ZooKeeperEnsemble, unused_address};
use lock_zookeeper::ZooKeeperBackend;
use std::error::Error as _;
use tokio::task::block_in_place;

async fn is_refused(url: &str, kind: LockErrorKind, remedy: &str) {
    let error = ZooKeeperBackend::connect(url).await.unwrap_err();
    let source = error.source().map(ToString::to_string).unwrap_or_default();
    let text = format!("{error} {source}");
    assert_eq!(error.kind(), kind, "{text}");
    assert!(text.contains(remedy) && !text.contains("secret"), "{text}");
}

async fn is_usable(url: &str) {
    let locks = LockFactory::new(ZooKeeperBackend::connect(url).await.unwrap());
    locks.named("x").unwrap().acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_belong_to_their_login() {
    let ensemble = block_in_place(|| ZooKeeperEnsemble::start(1));
    let address = ensemble.address(0);
    is_usable(&format!("zookeeper://shop:secret@{address}/shop")).await;
    is_usable(&format!("zookeeper://shop:secret@{address}/shop")).await;
    for other in ["", "shop:other@", "guest:secret@"] {
        let url = format!("zookeeper://{other}{address}/shop");
        is_refused(&url, LockErrorKind::Backend, "has not all rights").await;
    }
    is_usable(&format!("zookeeper://{address}")).await;
    // Missing parents of a path belong to everybody.
    is_usable(&format!("zookeeper://shop:secret@{address}/team/shop")).await;
    is_usable(&format!("zookeeper://guest:secret@{address}/team/other")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_of_another_program_is_refused() {
    let ensemble = block_in_place(|| ZooKeeperEnsemble::start(1));
    let address = ensemble.address(0).to_string();
    let operator = zookeeper_client::Client::connect(&address).await.unwrap();
    let kept = zookeeper_client::CreateMode::Persistent.with_acls(zookeeper_client::Acls::anyone_all());
    operator.create("/foreign", b"data", &kept).await.unwrap();
    let url = format!("zookeeper://{address}/foreign");
    is_refused(&url, LockErrorKind::Backend, "write another path").await;
    assert_eq!(operator.list_children("/foreign").await.unwrap(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn longer_session_than_the_servers_grant_is_refused() {
    let ensemble = block_in_place(|| ZooKeeperEnsemble::start(1));
    let url = format!("zookeeper://{}?session=61s", ensemble.address(0));
    is_refused(&url, LockErrorKind::Backend, "write `?session=60s`").await;
}

/// The first server of the URL is down, and the second one hangs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_do_not_answer_are_passed_over() {
    let (ensemble, hung) = block_in_place(|| (ZooKeeperEnsemble::start(1), ZooKeeperEnsemble::start(1)));
    block_in_place(|| hung.pause(0));
    is_usable(&format!("zookeeper://{},{},{}", unused_address(), hung.address(0), ensemble.address(0))).await;
    block_in_place(|| hung.resume(0));
}

#[tokio::test]
async fn ensemble_that_is_not_there_is_unavailable() {
    let url = format!("zookeeper://{}", unused_address());
    is_refused(&url, LockErrorKind::Unavailable, "Connection refused").await;
    // Nothing was sent, so there is nothing to undo.
    let locks = LockFactory::new(ZooKeeperBackend::connect_lazy(&url).unwrap());
    assert!(locks.named("x").unwrap().try_acquire().await.is_err());
    locks.shutdown().await;
}

#[cfg(feature = "tls")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_encrypted() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, pair) = (folder.path().join("cert.pem"), folder.path().join("pair.pem"));
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&pair, made.signing_key.serialize_pem() + &made.cert.pem()).unwrap();
    let ensemble = block_in_place(|| ZooKeeperEnsemble::with_tls(&pair));
    let address = ensemble.encrypted_address(0);
    is_usable(&format!("zookeepers://{address}?ca={}", certificate.display())).await;
    // Another authority.
    let other = folder.path().join("other.pem");
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(&other, made.cert.pem()).unwrap();
    is_refused(&format!("zookeepers://{address}?ca={}", other.display()), LockErrorKind::Unavailable, "")
        .await;
    let error = ZooKeeperBackend::connect(&format!("zookeepers://{address}?ca=/missing")).await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::InvalidUrl);
}
