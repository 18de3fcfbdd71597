//! What servers say of themselves: excerpts of their `INFO`.

use super::*;

const REDIS_6_2: &str = "# Server\r\nredis_version:6.2.14\r\nredis_git_sha1:40305114\r\nredis_mode:standalone\r\n\
    os:Linux 6.1.0 x86_64\r\n\r\n# Memory\r\nmaxmemory:0\r\nmaxmemory_human:0B\r\nmaxmemory_policy:noeviction\r\n\r\n\
    # Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n# Cluster\r\ncluster_enabled:0\r\n";
const VALKEY_8_1: &str = "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.8\r\n\
    valkey_release_stage:ga\r\nserver_mode:standalone\r\nos:Linux 6.1.0 x86_64\r\n\r\n# Memory\r\nmaxmemory:0\r\n\
    maxmemory_policy:noeviction\r\n\r\n# Replication\r\nrole:master\r\n\r\n# Cluster\r\ncluster_enabled:0\r\n";

/// Of each version that differs in what is read here.
fn servers() -> Vec<String> {
    let redis =
        ["6.2.14", "7.0.15", "7.2.5", "7.4.1", "8.0.2"].map(|version| REDIS_6_2.replace("6.2.14", version));
    // It is a fork of 7.2, and has its own word for the mode since version 8.
    let valkey_7 = REDIS_6_2.replace("6.2.14", "7.2.4\r\nserver_name:valkey\r\nvalkey_version:7.2.5");
    let valkey = ["8.1.8", "9.1.2"].map(|version| VALKEY_8_1.replace("8.1.8", version));
    redis.into_iter().chain([valkey_7]).chain(valkey).collect()
}

fn verified(text: &str) -> Result<Vec<ConnectWarning>, String> {
    verify_server(&Info::read(text)).map_err(|error| error.to_string())
}

fn is_refused(text: &str, says: &str) {
    let error = verified(text).expect_err(says);
    assert!(error.contains(says), "{error}");
}

#[test]
fn plain_masters_of_every_version_are_accepted() {
    for server in servers() {
        assert_eq!(verified(&server), Ok(vec![]), "{server}");
    }
    assert_eq!(verified(&REDIS_6_2.replace("6.2.14", "6.2.0")), Ok(vec![]));
    assert_eq!(verified(&REDIS_6_2.replace("6.2.14", "10.1.0")), Ok(vec![]));
}

#[test]
fn members_of_clusters_and_sentinels_are_refused_by_name() {
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
fn old_versions_are_refused_by_name() {
    for old in ["5.0.14", "6.0.16", ""] {
        is_refused(&REDIS_6_2.replace("6.2.14", old), "too old");
    }
}

#[test]
fn eviction_is_warned_of_where_it_can_happen() {
    for server in servers() {
        let evicts = server.replace("noeviction", "allkeys-lru");
        assert_eq!(verified(&evicts), Ok(vec![]), "there is no limit");
        let evicts = evicts.replace("maxmemory:0", "maxmemory:1000000");
        assert_eq!(verified(&evicts), Ok(vec![ConnectWarning::Evicts { policy: "allkeys-lru".into() }]));
        assert_eq!(verified(&evicts.replace("allkeys-lru", "noeviction")), Ok(vec![]));
    }
}
