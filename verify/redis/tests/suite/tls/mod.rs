//! TLS: private authorities, client certificates, and everything that must be refused.

mod authority;
mod conformance;

use super::support::until;
use crate::client::{RedisBackendBuilder, Tls};
use authority::Authority;
use lock_core::{Connectors, LockFactory, backend::BackendErrorKind};
use lock_testkit::{RedisCluster, RedisQuorum, RedisSentinels, RedisServer};
use rcgen::{BasicConstraints, CertificateParams, IsCa, date_time_ymd};

fn url(server: &RedisServer) -> String {
    format!("rediss://127.0.0.1:{}", server.tls_port().expect("started with TLS"))
}

async fn refused(url: &str, tls: Tls) {
    let builder = RedisBackendBuilder::from_url(url).unwrap().tls(tls);
    let error = builder.connect().await.map(drop).expect_err("untrusted certificate");
    let kind = error.backend_error().expect("server fault").kind();
    // A server that refuses our certificate just closes the connection.
    assert!(matches!(kind, BackendErrorKind::Misconfigured | BackendErrorKind::Unavailable), "{error:?}");
}

#[tokio::test]
async fn only_the_given_authority_is_trusted() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let server = ours.server(&ours.signs("127.0.0.1"), false);
    let backend = RedisBackendBuilder::from_url(&url(&server))
        .unwrap()
        .tls(Tls::authority(ours.pem.as_bytes()))
        .connect();
    let locks = LockFactory::new(backend.await.unwrap());
    locks.named("x").unwrap().acquire().await.unwrap().release().await.unwrap();
    refused(&url(&server), Tls::authority(theirs.pem.as_bytes())).await;
    refused(&url(&server), Tls::system()).await;
}

#[tokio::test]
async fn certificates_with_a_wrong_name_or_date_are_refused() {
    let ours = Authority::new();
    let other = ours.server(&ours.signs("cache.example"), false);
    refused(&url(&other), Tls::authority(ours.pem.as_bytes())).await;
    let expired = ours.signs_with("127.0.0.1", |params| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    });
    let expired = ours.server(&expired, false);
    refused(&url(&expired), Tls::authority(ours.pem.as_bytes())).await;
}

/// The remedy is in the error of a start, and in those of a lazy start.
#[tokio::test]
async fn each_untrusted_certificate_names_its_remedy() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let dated = |from, to| {
        move |params: &mut CertificateParams| {
            params.not_before = date_time_ymd(from, 1, 1);
            params.not_after = date_time_ymd(to, 1, 1);
        }
    };
    let (over, early) = (dated(2020, 2021), dated(2100, 2101));
    // As `openssl req -x509` marks it.
    let as_authority = |params: &mut CertificateParams| {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    };
    let as_usual = |_: &mut CertificateParams| {};
    type Change = dyn Fn(&mut CertificateParams);
    let cases: [(&str, &Change, _, _); 5] = [
        ("127.0.0.1", &as_authority, &ours, "marked as an authority (CA:TRUE)"),
        ("127.0.0.1", &over, &ours, "the certificate has expired"),
        ("127.0.0.1", &early, &ours, "the certificate is not valid yet"),
        ("cache.example", &as_usual, &ours, "was issued for another host"),
        ("127.0.0.1", &as_usual, &theirs, "configure the authority that signed the certificate"),
    ];
    for (name, change, authority, says) in cases {
        let identity = ours.signs_with(name, change);
        let server = ours.server(&identity, false);
        let builder = || {
            let tls = Tls::authority(authority.pem.as_bytes());
            RedisBackendBuilder::from_url(&url(&server)).unwrap().tls(tls)
        };
        let error = builder().connect().await.map(drop).expect_err("untrusted certificate");
        assert!(format!("{error:#}").contains(says), "missing {says:?}: {error:#}");
        let locks = LockFactory::new(builder().connect_lazy().unwrap());
        super::starting::is_told(&locks, says).await;
    }
}

#[tokio::test]
async fn client_certificate_is_sent_to_a_server_that_requires_it() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let server = ours.server(&ours.signs("127.0.0.1"), true);
    refused(&url(&server), Tls::authority(ours.pem.as_bytes())).await;
    let stranger = theirs.signs("stranger");
    let trusting = Tls::authority(ours.pem.as_bytes());
    refused(&url(&server), trusting.clone().client_certificate(stranger.certificate, stranger.key)).await;

    let client = ours.signs("client");
    let tls = trusting.client_certificate(client.certificate, client.key);
    assert!(!format!("{tls:?}").contains("PRIVATE KEY"));
    RedisBackendBuilder::from_url(&url(&server)).unwrap().tls(tls).connect().await.unwrap();

    // The same by URL, as in a program's configuration.
    let (certificate, key) = client.files;
    let by_url = format!(
        "{}?authority={}&certificate={}&key={}",
        url(&server),
        ours.file().display(),
        certificate.display(),
        key.display()
    );
    let connectors = Connectors::default().with(crate::client::Redis);
    let locks = LockFactory::new(connectors.connect(&by_url).await.unwrap());
    let others = LockFactory::new(connectors.connect(&by_url).await.unwrap());
    let guard = locks.named("x").unwrap().acquire().await.unwrap();
    // Wake-ups arrive over TLS as well.
    let waiting = tokio::spawn(others.named("x").unwrap().acquire());
    until("the waiter is subscribed", async || server.subscriptions() == 1).await;
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn invalid_certificates_are_refused_before_connecting() {
    let ours = Authority::new();
    let client = ours.signs("client");
    let cases = [
        (Tls::authority("hello"), "no certificate found"),
        (Tls::authority(client.key.as_bytes()), "no certificate found"),
        (Tls::system().client_certificate("hello", client.key.as_bytes()), "no certificate found"),
        (Tls::system().client_certificate(client.certificate.as_bytes(), "hello"), "not a valid PEM key"),
        (
            Tls::system().client_certificate(client.certificate.as_bytes(), ours.signs("other").key),
            "do not match",
        ),
    ];
    for (tls, says) in cases {
        let error = RedisBackendBuilder::from_url("rediss://127.0.0.1:1").unwrap().tls(tls).connect().await;
        let error = error.map(drop).unwrap_err();
        let cause = error.backend_error().expect("configuration fault");
        assert_eq!(cause.kind(), BackendErrorKind::Misconfigured);
        assert!(cause.to_string().contains(says), "{cause}");
    }
}

/// Asserts that the URL works with the right authority, and that another one gives an error with node and remedy.
async fn is_secured(url: &str, ours: &Authority, theirs: &Authority) {
    let builder = |authority: &Authority| {
        let tls = Tls::authority(authority.pem.as_bytes());
        RedisBackendBuilder::from_url(url).unwrap().tls(tls)
    };
    let error = builder(theirs).connect_store().await.map(drop).expect_err("untrusted certificate");
    let cause = error.backend_error().expect("server fault");
    assert_eq!(cause.kind(), BackendErrorKind::Misconfigured, "{cause}");
    assert!(cause.to_string().contains("127.0.0.1:"), "{cause}");
    assert!(cause.to_string().contains("configure the authority that signed the certificate"), "{cause}");
    let locks = LockFactory::new(builder(ours).connect_store().await.unwrap());
    let others = LockFactory::new(builder(ours).connect_store().await.unwrap());
    for name in ["a", "b", "c"] {
        let guard = locks.named(name).unwrap().acquire().await.unwrap();
        let waiting = tokio::spawn(others.named(name).unwrap().acquire());
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        guard.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_and_their_master_are_reached_over_tls() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let identity = ours.signs("127.0.0.1");
    let tls = || ours.tls(&identity, false);
    let deployment = RedisSentinels::with(|server| server.tls(tls()), |sentinel| sentinel.tls(tls()));
    is_secured(&deployment.tls_url(), &ours, &theirs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_a_cluster_are_reached_over_tls() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let identity = ours.signs("127.0.0.1");
    let cluster =
        RedisCluster::with(|server| server.tls(ours.tls(&identity, false)).config("tls-cluster", "yes"));
    is_secured(&cluster.tls_url(), &ours, &theirs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_a_quorum_are_reached_over_tls() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let identity = ours.signs("127.0.0.1");
    let quorum = RedisQuorum::with(3, |server| server.tls(ours.tls(&identity, false)));
    is_secured(&format!("{}?durable=true", quorum.tls_url()), &ours, &theirs).await;
}

#[tokio::test]
async fn expired_certificates_of_sentinels_and_nodes_are_refused() {
    let ours = Authority::new();
    let expired = ours.signs_with("127.0.0.1", |params| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    });
    let server = ours.server(&expired, false);
    let port = server.tls_port().unwrap();
    for url in [
        format!("rediss-sentinel://127.0.0.1:{port}/main"),
        format!("rediss-cluster://127.0.0.1:{port}"),
        format!("redlocks://127.0.0.1:{port},127.0.0.1:1,127.0.0.1:2"),
    ] {
        let tls = Tls::authority(ours.pem.as_bytes());
        let connecting = RedisBackendBuilder::from_url(&url).unwrap().tls(tls).connect_store();
        let error = connecting.await.map(drop).expect_err("untrusted certificate");
        let cause = error.backend_error().expect("server fault");
        assert_eq!(cause.kind(), BackendErrorKind::Misconfigured, "{cause}");
        assert!(cause.to_string().contains(&port.to_string()), "{cause}");
    }
}
