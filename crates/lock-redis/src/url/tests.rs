use super::*;
use lock_core::LockErrorKind;
use std::time::Duration;

fn address(url: &str) -> Address {
    Address::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
}

fn tcp(host: &str, port: u16, database: Option<u8>) -> Endpoint {
    Endpoint { server: Server::Tcp { host: host.to_owned(), port }, database }
}

/// Returns the only server of the address.
fn endpoint(address: &Address) -> &Endpoint {
    match &address.topology {
        Topology::Standalone(endpoint) => endpoint,
        other => panic!("one server: {other:?}"),
    }
}

fn login(username: Option<&str>, password: Option<&str>) -> Credentials {
    Credentials { username: username.map(str::to_owned), password: password.map(str::to_owned) }
}

#[test]
fn url_has_the_server_and_the_login() {
    let plain = address("redis://cache.example");
    assert_eq!(*endpoint(&plain), tcp("cache.example", 6379, None));
    assert!(plain.credentials == login(None, None) && plain.tls.is_none());

    let full = address("redis://app:p%40ss%2Fw%C3%B6rd@10.0.0.7:7000/3");
    assert_eq!(*endpoint(&full), tcp("10.0.0.7", 7000, Some(3)));
    assert!(full.credentials == login(Some("app"), Some("p@ss/wörd")));

    let only_password = address("redis://:secret@[::1]/");
    assert_eq!(*endpoint(&only_password), tcp("::1", 6379, None));
    assert!(only_password.credentials == login(None, Some("secret")));

    let socket = address("redis+unix:///run/redis/my%20redis.sock?db=2&user=app&pass=p%40ss");
    let server = Server::Unix { path: "/run/redis/my redis.sock".into() };
    assert_eq!(*endpoint(&socket), Endpoint { server, database: Some(2) });
    assert!(socket.credentials == login(Some("app"), Some("p@ss")));
}

#[test]
fn url_of_sentinels_names_the_master() {
    let plain = address("redis-sentinel://a,b:7000,[::1]/main");
    let sentinels = ["a", "b", "::1"].into_iter().zip([26_379, 7_000, 26_379]);
    let sentinels = sentinels.map(|(host, port)| Server::Tcp { host: host.to_owned(), port }).collect();
    let expected =
        SentinelAddress { sentinels, master: "main".into(), credentials: login(None, None), database: None };
    assert_eq!(plain.topology, Topology::Sentinel(expected));
    assert!(plain.credentials == login(None, None) && plain.tls.is_none());

    let url = "rediss-sentinel://app:p%40ss@a/my%20main/3?sentinel_user=watch&sentinel_pass=s%26cret";
    let full = address(url);
    let Topology::Sentinel(sentinel) = &full.topology else { panic!("sentinels: {full:?}") };
    assert_eq!((&*sentinel.master, sentinel.database), ("my main", Some(3)));
    assert!(sentinel.credentials == login(Some("watch"), Some("s&cret")));
    assert!(full.credentials == login(Some("app"), Some("p@ss")));
    assert_eq!(full.tls, Some(Tls::system()));
}

#[test]
fn url_of_a_cluster_names_some_nodes() {
    let plain = address("redis-cluster://:secret@a,b:7000/");
    let nodes = [("a", 6_379), ("b", 7_000)].map(|(host, port)| Server::Tcp { host: host.into(), port });
    assert_eq!(plain.topology, Topology::Cluster(nodes.to_vec()));
    assert!(plain.credentials == login(None, Some("secret")) && plain.tls.is_none());
    assert_eq!(address("rediss-cluster://a").tls, Some(Tls::system()));
}

#[test]
fn url_of_a_quorum_names_its_nodes() {
    let plain = address("redlock://app:secret@a,b:7000,[::1]/3");
    let Topology::Quorum(quorum) = &plain.topology else { panic!("a quorum: {plain:?}") };
    assert_eq!(
        quorum.nodes,
        [tcp("a", 6_379, Some(3)), tcp("b", 7_000, Some(3)), tcp("::1", 6_379, Some(3))]
    );
    assert!(quorum.max_lease.is_none() && !quorum.durable && plain.tls.is_none());
    assert!(plain.credentials == login(Some("app"), Some("secret")));

    let full = address("redlocks://a,b,c,d,e?max_lease=10s&durable=true");
    let Topology::Quorum(quorum) = &full.topology else { panic!("a quorum: {full:?}") };
    assert_eq!((quorum.nodes.len(), &quorum.nodes[0]), (5, &tcp("a", 6_379, None)));
    assert_eq!((quorum.max_lease, quorum.durable), (Some(Duration::from_secs(10)), true));
    assert_eq!(full.tls, Some(Tls::system()));
    for (text, millis) in [("4001ms", 4_001), ("30s", 30_000), ("2m", 120_000), ("1h", 3_600_000)] {
        let address = address(&format!("redlock://a,b,c?durable=false&max_lease={text}"));
        let Topology::Quorum(quorum) = address.topology else { panic!("a quorum") };
        assert_eq!(quorum.max_lease, Some(Duration::from_millis(millis)));
    }
}

#[test]
fn valkey_schemes_equal_those_of_redis() {
    assert_eq!(address("valkey://:secret@host/2"), address("redis://:secret@host/2"));
    assert_eq!(address("valkeys://host:7000"), address("rediss://host:7000"));
}

#[test]
fn invalid_url_is_refused_without_quoting_its_password() {
    let cases = [
        ("redis://user:canary@host:port", "percent-encode"),
        ("redis://:can/ary@host", "percent-encode"),
        ("redis://:can#ary@host", "%23"),
        ("redis://:canary@host#x", "%23"),
        ("redis:///0", "no host"),
        ("redis://:canary@host/first", "from 0 to 255"),
        ("redis://:canary@host/256", "from 0 to 255"),
        ("redis://:canary@host/1/2", "from 0 to 255"),
        ("redis://canary@host", "`:password@`"),
        ("redis://:canary@host?db=1", "does not accept options"),
        ("redis://:%ff@host", "UTF-8"),
        ("http://:canary@host", "unknown scheme"),
        ("redis+unix://host/path", "redis+unix:///path"),
        ("redis+unix://", "no path"),
        ("redis+unix:///run/redis.sock?database=1", "accepts db, user, pass"),
        ("canary", "no scheme"),
        ("localhost:6379", "`redis://localhost:6379`"),
        ("", "is empty"),
        ("unix:///run/redis.sock", "redis+unix:///"),
        ("redis-sentinel://:canary@host", "no master name"),
        ("redis-sentinel://:canary@host/", "no master name"),
        ("redis-sentinel://:canary@host,/main", "no host"),
        ("redis-sentinel://:canary@a,b:port/main", "percent-encode"),
        ("redis-sentinel://:can#ary@a,b/main", "%23"),
        ("redis-sentinel://:canary@a,b/main#x", "%23"),
        ("redis-sentinel://:canary@a,b/main/x", "from 0 to 255"),
        ("redis-sentinel://:canary@a,b/main?authority=x", "accepts sentinel_user, sentinel_pass"),
        ("redis-sentinel://app:7/canary@a,b", "percent-encode"),
        ("redis-sentinel://app:7/canary@a,b/0", "percent-encode"),
        ("redis-cluster://:canary@a,b/3", "only one database"),
        ("redis-cluster://:canary@a,b?authority=x", "does not accept options"),
        ("redis-cluster://", "no host"),
        ("redlock://:canary@a,b", "at least three nodes"),
        ("redlock://:canary@a,b,a:6379", "duplicate node"),
        ("redlock://:canary@a,b,", "no host"),
        ("redlock://:canary@a,b,c/x", "from 0 to 255"),
        ("redlock://:canary@a,b,c?authority=x", "accepts max_lease, durable"),
        ("redlocks://:canary@a,b,c?db=1", "accepts authority, certificate, key, max_lease, durable"),
        ("redlock://:canary@a,b,c?durable=yes", "must be `true` or `false`"),
        ("redlock://:canary@a,b,c?max_lease=4s", "more than `4s`"),
        ("redlock://:canary@a,b,c?max_lease=", "is not a duration"),
        ("redlock://:canary@a,b,c?max_lease=30", "is not a duration"),
        ("redlock://:canary@a,b,c?max_lease=s", "is not a duration"),
        ("redlock://:canary@a,b,c?max_lease=1.5s", "is not a duration"),
        ("redlock://:canary@a,b,c?max_lease=18446744073709551615h", "is not a duration"),
        ("rediss-sentinel://:canary@a,b/main?db=1", "accepts authority, certificate, key, sentinel_user"),
    ];
    for (url, cure) in cases {
        let error = Address::parse(url).map(drop).unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::InvalidUrl, "{url}");
        let text = format!("{error} {error:?}");
        assert!(text.contains(cure), "{url}: {text}");
        assert!(!text.contains("canary") && !text.contains("can/ary"), "{text}");
    }
}

#[test]
fn url_can_enable_tls() {
    assert_eq!(address("rediss://host").tls, Some(Tls::system()));
    assert_eq!(address("redis://host").tls, None);
    for (url, cure) in [
        ("rediss://host?authority=/there/is/no/file.pem", "/there/is/no/file.pem"),
        ("rediss://host?certificate=/client.pem", "both"),
        ("rediss://host?insecure=true", "accepts authority, certificate, key"),
    ] {
        let text = Address::parse(url).map(drop).unwrap_err().to_string();
        assert!(text.contains(cure), "{url}: {text}");
    }
}
