//! Checks against excerpts of real `INFO` replies, in the files of `info/`. The replies of servers that were actually
//! run contain all sections that are read here. For the others, only the server section was published.

use super::*;

/// The sections that are the same in every version.
const OTHER_SECTIONS: &str = "\n# Memory\nmaxmemory:0\nmaxmemory_policy:noeviction\n\n# Replication\nrole:master\n\
    connected_slaves:0\n\n# Cluster\ncluster_enabled:0\n";

const REDIS_6_2: &str = include_str!("info/redis-6.2.14.txt");

/// The replies of servers that were run; [`NOT_RUN`] has the published ones.
const RUN: [&str; 5] = [
    REDIS_6_2,
    include_str!("info/redis-7.0.15.txt"),
    include_str!("info/redis-7.4.1.txt"),
    include_str!("info/valkey-8.1.8.txt"),
    include_str!("info/valkey-9.1.2.txt"),
];
const NOT_RUN: [&str; 5] = [
    include_str!("info/redis-7.2.4.txt"),
    include_str!("info/redis-8.10.2.txt"),
    include_str!("info/valkey-7.2.11.txt"),
    include_str!("info/valkey-8.0.1.txt"),
    include_str!("info/valkey-9.0.0.txt"),
];

/// Returns the replies with CRLF line endings, as a server sends them.
fn servers() -> Vec<String> {
    let run = RUN.map(str::to_owned);
    let others = NOT_RUN.map(|server| server.to_owned() + OTHER_SECTIONS);
    run.into_iter().chain(others).map(|text| text.replace('\n', "\r\n")).collect()
}

fn verified(text: &str) -> Result<Vec<ConnectWarning>, String> {
    let checked = verify_server(&Info::read(text), Expected::Master);
    checked.map(|checked| checked.warnings).map_err(|error| error.to_string())
}

fn is_refused(text: &str, says: &str) {
    let error = verified(text).expect_err(says);
    assert!(error.contains(says), "{error}");
}

fn of_version(version: &str) -> String {
    REDIS_6_2.replace("6.2.14", version)
}

#[test]
fn plain_masters_of_every_version_are_accepted() {
    for server in servers() {
        assert_eq!(verified(&server), Ok(vec![]), "{server}");
    }
    for version in ["6.2.0", "10.1.0"] {
        assert_eq!(verified(&of_version(version)), Ok(vec![]));
    }
}

#[test]
fn cluster_members_and_sentinels_are_refused_by_kind() {
    for server in servers() {
        let cluster =
            server.replace("standalone", "cluster").replace("cluster_enabled:0", "cluster_enabled:1");
        is_refused(&cluster, "Redis Cluster");
        is_refused(&server.replace("cluster_enabled:0", "cluster_enabled:1"), "Redis Cluster");
        is_refused(&server.replace("standalone", "cluster"), "Redis Cluster");
        is_refused(&server.replace("standalone", "sentinel"), "sentinel");
        is_refused(&server.replace("role:master", "role:slave"), "replica");
    }
}

#[test]
fn nodes_of_quorums_are_independent_masters() {
    for server in servers() {
        let server =
            format!("{}\r\naof_enabled:0\r\nrun_id:b983c153\r\n", server.replace("run_id", "another"));
        let check = |text: &str| accept_node(&Info::read(text));
        let run_id = || "b983c153".to_owned();
        let accepted = |text: &str| check(text).map(|node| (node.run_id, node.appends)).expect("it is one");
        assert_eq!(accepted(&server), (run_id(), false));
        let appends = server.replace("aof_enabled:0", "aof_enabled:1");
        assert_eq!(accepted(&appends), (run_id(), true));
        let nameless = check(&server.replace("run_id:b983c153", "run_id:")).expect_err("no name");
        assert!(nameless.to_string().contains("use another server"), "{nameless}");
        let evicts = format!("{server}maxmemory:1048576\r\nmaxmemory_policy:volatile-lru\r\n");
        let evicts = check(&evicts).expect_err("would lose leases").to_string();
        assert!(evicts.contains("set `maxmemory-policy noeviction`"), "{evicts}");
        for (other, says) in [
            (server.replace("cluster_enabled:0", "cluster_enabled:1"), "this is a Redis Cluster node"),
            (server.replace("standalone", "sentinel"), "this is a sentinel"),
            (server.replace("role:master", "role:slave"), "this is a replica"),
        ] {
            let error = check(&other).expect_err("not one").to_string();
            assert!(error.contains(says) && error.contains("must be an independent master"), "{error}");
        }
    }
}

#[test]
fn nodes_of_clusters_have_sharded_channels_since_redis_7() {
    for server in servers() {
        let node = server.replace("cluster_enabled:0", "cluster_enabled:1");
        let checked = verify_server(&Info::read(&node), Expected::ClusterNode).expect("it is one");
        assert_eq!(checked.is_sharded, !node.contains("redis_version:6.2"), "{node}");
        let alone = verify_server(&Info::read(&server), Expected::ClusterNode).expect_err("not one");
        assert!(alone.to_string().contains("write `redis://`"), "{alone}");
    }
}

#[test]
fn old_versions_are_refused_with_their_number() {
    for old in ["5.0.14", "6.0.16", ""] {
        is_refused(&of_version(old), "too old");
    }
}

#[test]
fn eviction_is_warned_of_where_it_is_possible() {
    for server in servers() {
        let evicts = server.replace("noeviction", "allkeys-lru");
        assert_eq!(verified(&evicts), Ok(vec![]), "without a memory limit");
        let evicts = evicts.replace("maxmemory:0", "maxmemory:1000000");
        assert_eq!(verified(&evicts), Ok(vec![ConnectWarning::Evicts { policy: "allkeys-lru".into() }]));
        assert_eq!(verified(&evicts.replace("allkeys-lru", "noeviction")), Ok(vec![]));
    }
}
