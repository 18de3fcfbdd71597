//! Tests of a cluster of three masters and three replicas.

use lock_testkit::RedisCluster;

#[test]
fn a_slot_is_moved_with_its_keys() {
    let cluster = RedisCluster::start();
    let (from, slot) = (cluster.server_of("a"), cluster.slot_of("a"));
    let to = cluster.servers().iter().take(3).find(|server| server.port() != from.port()).unwrap();
    from.command(&["SET", "a", "1"]);
    assert!(to.command(&["GET", "a"]).is_error());
    cluster.begin_move(slot, from, to);
    assert!(format!("{:?}", from.command(&["SET", "{a}b", "1"])).contains("ASK"));
    cluster.end_move(slot, from, to);
    assert_eq!(to.command(&["GET", "a"]).text(), "1");
    cluster.settle();
    assert_eq!(cluster.server_of("a").port(), to.port());
}

#[test]
fn a_replica_replaces_its_dead_master() {
    let cluster = RedisCluster::start();
    let old = cluster.server_of("a");
    old.stop();
    while cluster.server_of("a").port() == old.port() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    cluster.settle();
    old.restart();
    cluster.settle();
}
