//! Tests of a master, its replicas and their sentinels.

use lock_testkit::RedisSentinels;

#[test]
fn all_servers_follow_a_promoted_server() {
    let deployment = RedisSentinels::start();
    let old = deployment.master().port();
    assert_eq!(old, deployment.servers()[0].port());
    deployment.master().command(&["SET", "a", "1"]);
    deployment.fail_over();
    let new = deployment.master();
    assert_ne!(new.port(), old);
    deployment.settle();
    assert_eq!(new.command(&["GET", "a"]).text(), "1");
    for server in deployment.servers() {
        let writes = !server.command(&["SET", "b", "1"]).is_error();
        assert_eq!(writes, server.port() == new.port());
    }
}
