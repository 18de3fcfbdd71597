//! Logins, rights, sessions and TLS of ZooKeeper.

use super::support::{is_refused, is_usable};
use lock_core::LockErrorKind;
use lock_testkit::{ZooKeeper, ZooKeeperEnsemble};
use tokio::task::block_in_place;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_belong_to_their_login() {
    let ensemble = block_in_place(|| ZooKeeperEnsemble::start(1));
    let address = ensemble.address(0);
    is_usable::<ZooKeeper>(&format!("zookeeper://shop:secret@{address}/shop")).await;
    is_usable::<ZooKeeper>(&format!("zookeeper://shop:secret@{address}/shop")).await;
    for other in ["", "shop:other@", "guest:secret@"] {
        let url = format!("zookeeper://{other}{address}/shop");
        is_refused::<ZooKeeper>(&url, LockErrorKind::Backend, "has not all rights").await;
    }
    is_usable::<ZooKeeper>(&format!("zookeeper://{address}")).await;
    // Missing parents of a path belong to everybody.
    is_usable::<ZooKeeper>(&format!("zookeeper://shop:secret@{address}/team/shop")).await;
    is_usable::<ZooKeeper>(&format!("zookeeper://guest:secret@{address}/team/other")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_of_another_program_is_refused() {
    let ensemble = block_in_place(|| ZooKeeperEnsemble::start(1));
    let address = ensemble.address(0).to_string();
    let operator = zookeeper_client::Client::connect(&address).await.unwrap();
    let kept = zookeeper_client::CreateMode::Persistent.with_acls(zookeeper_client::Acls::anyone_all());
    operator.create("/foreign", b"data", &kept).await.unwrap();
    let url = format!("zookeeper://{address}/foreign");
    is_refused::<ZooKeeper>(&url, LockErrorKind::Backend, "write another path").await;
    assert_eq!(operator.list_children("/foreign").await.unwrap(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn longer_session_than_the_servers_grant_is_refused() {
    let ensemble = block_in_place(|| ZooKeeperEnsemble::start(1));
    let url = format!("zookeeper://{}?session=61s", ensemble.address(0));
    is_refused::<ZooKeeper>(&url, LockErrorKind::Backend, "write `?session=60s`").await;
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
    is_usable::<ZooKeeper>(&format!("zookeepers://{address}?ca={}", certificate.display())).await;
    // Another authority.
    let other = folder.path().join("other.pem");
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(&other, made.cert.pem()).unwrap();
    is_refused::<ZooKeeper>(
        &format!("zookeepers://{address}?ca={}", other.display()),
        LockErrorKind::Unavailable,
        "",
    )
    .await;
    let url = format!("zookeepers://{address}?ca=/missing");
    is_refused::<ZooKeeper>(&url, LockErrorKind::InvalidUrl, "cannot be read").await;
}
