//! Tests of independent servers.

use lock_testkit::RedisQuorum;

#[test]
fn quorum_nodes_are_independent() {
    let quorum = RedisQuorum::start(3);
    let ports: Vec<_> =
        quorum.servers().iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    assert_eq!(quorum.url(), format!("redlock://{}", ports.join(",")));
    quorum.servers()[0].command(&["SET", "a", "1"]);
    assert_eq!(quorum.servers()[1].keys(), Vec::<String>::new());
    quorum.servers()[0].stop();
    assert!(quorum.servers()[2].keys().is_empty(), "the other nodes must not be affected");
}
