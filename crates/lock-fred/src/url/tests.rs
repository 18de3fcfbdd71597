use super::*;
use lock_core::ErrorKind;

fn config(url: &str) -> Config {
    parse(url).unwrap_or_else(|error| panic!("{url}: {error}")).into_config()
}

#[test]
fn a_url_says_where_and_as_whom() {
    let plain = config("redis://cache.example");
    assert_eq!(plain.server, ServerConfig::new_centralized("cache.example", 6379));
    assert_eq!((plain.username, plain.password, plain.database), (None, None, None));

    let full = config("redis://app:p%40ss%2Fw%C3%B6rd@10.0.0.7:7000/3");
    assert_eq!(full.server, ServerConfig::new_centralized("10.0.0.7", 7000));
    assert_eq!(full.username.as_deref(), Some("app"));
    assert_eq!(full.password.as_deref(), Some("p@ss/wörd"));
    assert_eq!(full.database, Some(3));

    let only_password = config("redis://:secret@[::1]/");
    assert_eq!(only_password.server, ServerConfig::new_centralized("::1", 6379));
    assert_eq!((only_password.username, only_password.password.as_deref()), (None, Some("secret")));

    let socket = config("redis+unix:///run/redis/my%20redis.sock?db=2&user=app&pass=p%40ss");
    assert_eq!(socket.server, ServerConfig::Unix { path: "/run/redis/my redis.sock".into() });
    assert_eq!((socket.username.as_deref(), socket.password.as_deref()), (Some("app"), Some("p@ss")));
    assert_eq!(socket.database, Some(2));
}

#[test]
fn a_bad_url_is_refused_with_its_cure_and_without_its_password() {
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
        ("redis://:canary@host?db=1", "no options"),
        ("redis://:%ff@host", "UTF-8"),
        ("http://:canary@host", "none of `redis`"),
        ("redis+unix://host/path", "redis+unix:///path"),
        ("redis+unix://", "no path"),
        ("redis+unix:///run/redis.sock?database=1", "knows db, user, pass"),
        ("canary", "no scheme"),
        ("localhost:6379", "`redis://localhost:6379`"),
        ("", "is empty"),
        ("unix:///run/redis.sock", "redis+unix:///"),
        ("redis-sentinel://:canary@host", "not supported"),
    ];
    for (url, cure) in cases {
        let error = parse(url).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidUrl, "{url}");
        let text = format!("{error} {error:?}");
        assert!(text.contains(cure), "{url}: {text}");
        assert!(!text.contains("canary") && !text.contains("can/ary"), "{text}");
    }
}

#[cfg(feature = "tls")]
#[test]
fn tls_is_by_url_as_well() {
    assert!(parse("rediss://host").unwrap().is_secured());
    assert!(!parse("redis://host").unwrap().is_secured());
    for (url, cure) in [
        ("rediss://host?authority=/there/is/no/file.pem", "/there/is/no/file.pem"),
        ("rediss://host?certificate=/client.pem", "both"),
        ("rediss://host?insecure=true", "knows authority, certificate, key"),
    ] {
        let text = parse(url).map(drop).unwrap_err().to_string();
        assert!(text.contains(cure), "{url}: {text}");
    }
}
