//! A cluster of three masters with a third of the slots each, and one replica per master.

use super::{RawValue, RedisServer, RedisServerBuilder, config::OWN_USER};
use std::{
    collections::BTreeSet,
    fmt,
    thread::sleep,
    time::{Duration, Instant},
};

/// The time limit for forming the cluster and for a failover.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);
const SLOTS: usize = 16_384;
const MASTERS: usize = 3;

/// A cluster of six separate processes, each of which is a [`RedisServer`].
///
/// A node that is unresponsive for a second counts as failed. The other slots are still served. All
/// methods block.
pub struct RedisCluster {
    servers: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts three masters and three replicas, and waits until they form a cluster.
    ///
    /// # Panics
    /// Panics under the same conditions as [`RedisServer::start`].
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::with(|server| server)
    }

    /// Starts the cluster like [`start`](Self::start), with custom settings for each server.
    ///
    /// # Panics
    /// Panics under the same conditions as [`RedisServer::start`].
    #[must_use]
    #[track_caller]
    pub fn with(server: impl Fn(RedisServerBuilder) -> RedisServerBuilder) -> Self {
        let one = || {
            let builder =
                RedisServer::builder().config("masteruser", OWN_USER).config("masterauth", OWN_USER);
            let builder = builder.config("cluster-enabled", "yes").config("cluster-node-timeout", "1000");
            server(builder.config("cluster-require-full-coverage", "no")).start()
        };
        let cluster = Self { servers: (0..2 * MASTERS).map(|_| one()).collect() };
        cluster.form();
        cluster
    }

    /// Returns the cluster's URL, `redis-cluster://127.0.0.1:port,…`, which lists the first three nodes.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of("redis-cluster", RedisServer::port)
    }

    /// Returns the TLS URL, `rediss-cluster://…`, for nodes that were built with TLS.
    #[must_use]
    pub fn tls_url(&self) -> String {
        self.url_of("rediss-cluster", RedisServer::spoken_port)
    }

    fn url_of(&self, scheme: &str, port: fn(&RedisServer) -> u16) -> String {
        let some = self.servers.iter().take(MASTERS);
        format!(
            "{scheme}://{}",
            some.map(|server| format!("127.0.0.1:{}", port(server))).collect::<Vec<_>>().join(",")
        )
    }

    /// Returns the nodes: the initial masters, followed by their replicas in the same order.
    #[must_use]
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// Returns the node that serves a key, as reported by the running nodes.
    ///
    /// # Panics
    /// Panics if no node serves the key.
    #[must_use]
    #[track_caller]
    pub fn server_of(&self, key: &str) -> &RedisServer {
        let slot = self.slot_of(key);
        let ports = self.living().map(|server| owner(server, slot));
        let port = ports.into_iter().flatten().next().unwrap_or_else(|| panic!("no node serves slot {slot}"));
        self.servers
            .iter()
            .find(|server| server.port() == port)
            .expect("the port belongs to one of the nodes")
    }

    /// Returns a key's slot.
    #[must_use]
    #[track_caller]
    pub fn slot_of(&self, key: &str) -> i64 {
        let server = self.living().next().expect("no node is running");
        server.command(&["CLUSTER", "KEYSLOT", key]).integer()
    }

    /// Returns all keys, sorted.
    #[must_use]
    #[track_caller]
    pub fn keys(&self) -> Vec<String> {
        let keys: BTreeSet<_> = self.living().flat_map(RedisServer::keys).collect();
        keys.into_iter().collect()
    }

    /// Starts moving a slot. From then on, its keys can be on either node, and new keys go to the
    /// target.
    #[track_caller]
    pub fn begin_move(&self, slot: i64, from: &RedisServer, to: &RedisServer) {
        let (slot, ids) = (slot.to_string(), (id(from), id(to)));
        said_ok(to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &ids.0]);
        said_ok(from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &ids.1]);
    }

    /// Moves the remaining keys of a slot and completes the move.
    #[track_caller]
    pub fn end_move(&self, slot: i64, from: &RedisServer, to: &RedisServer) {
        let (number, port, target) = (slot.to_string(), to.port().to_string(), id(to));
        loop {
            let keys = from.command(&["CLUSTER", "GETKEYSINSLOT", &number, "100"]);
            if keys.list().is_empty() {
                break;
            }
            for key in keys.list() {
                // An expired key is not an error.
                let migrate =
                    ["MIGRATE", "127.0.0.1", &port, key.text(), "0", "5000", "AUTH2", OWN_USER, OWN_USER];
                let answer = from.command(&migrate);
                assert!(!answer.is_error(), "{answer:?}");
            }
        }
        // Inform the new owner first, so the slot is never without an owner.
        for server in [to, from] {
            said_ok(server, &["CLUSTER", "SETSLOT", &number, "NODE", &target]);
        }
    }

    /// Waits until all running nodes agree that the cluster is healthy and who owns each slot.
    ///
    /// # Panics
    /// Panics if they do not agree in time.
    #[track_caller]
    pub fn settle(&self) {
        self.wait("the nodes agree", |cluster| {
            let views: BTreeSet<_> = cluster.living().map(|server| format!("{:?}", owners(server))).collect();
            views.len() == 1 && cluster.living().all(is_well)
        });
    }

    fn living(&self) -> impl Iterator<Item = &RedisServer> {
        self.servers.iter().filter(|server| server.pid().is_some())
    }

    #[track_caller]
    fn form(&self) {
        let (masters, replicas) = self.servers.split_at(MASTERS);
        let port = masters[0].spoken_port().to_string();
        for (number, server) in self.servers.iter().enumerate() {
            // Distinct epochs, so no two nodes can later claim a slot with the same epoch.
            said_ok(server, &["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()]);
        }
        for server in &self.servers[1..] {
            said_ok(server, &["CLUSTER", "MEET", "127.0.0.1", &port]);
        }
        for (number, master) in masters.iter().enumerate() {
            let slots = number * SLOTS / MASTERS..(number + 1) * SLOTS / MASTERS;
            let words = ["CLUSTER", "ADDSLOTS"].into_iter().map(str::to_owned);
            said_ok(master, &words.chain(slots.map(|slot| slot.to_string())).collect::<Vec<_>>());
        }
        for (master, replica) in masters.iter().zip(replicas) {
            let id = id(master);
            self.wait("the replica discovers its master", |_| {
                !replica.command(&["CLUSTER", "REPLICATE", &id]).is_error()
            });
        }
        self.settle();
        self.wait("the replicas have copied their data", |_| {
            replicas.iter().all(|replica| match replica.command(&["ROLE"]).list() {
                [role, _, _, link, ..] => (role.text(), link.text()) == ("slave", "connected"),
                _ => false,
            })
        });
    }

    #[track_caller]
    fn wait(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let begin = Instant::now();
        while !holds(self) {
            if begin.elapsed() > PATIENCE {
                let logs: Vec<_> = self.servers.iter().map(RedisServer::log).collect();
                panic!("timed out after {PATIENCE:?} waiting until {what}; node logs:\n{}", logs.join("\n"));
            }
            sleep(PAUSE);
        }
    }
}

impl fmt::Debug for RedisCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisCluster").field("servers", &self.servers).finish()
    }
}

#[track_caller]
fn said_ok<A: AsRef<[u8]>>(server: &RedisServer, words: &[A]) {
    assert_eq!(server.command(words), RawValue::Text("OK".to_owned()));
}

fn id(server: &RedisServer) -> String {
    server.command(&["CLUSTER", "MYID"]).text().to_owned()
}

/// Returns the first slot, the last slot and the master's port for each range.
fn owners(server: &RedisServer) -> Vec<(i64, i64, u16)> {
    let view = server.command(&["CLUSTER", "SLOTS"]);
    let range = |range: &RawValue| {
        let parts = range.list();
        let port = u16::try_from(parts[2].list()[1].integer()).expect("invalid port");
        (parts[0].integer(), parts[1].integer(), port)
    };
    let mut owners: Vec<_> = view.list().iter().map(range).collect();
    owners.sort_unstable();
    owners
}

fn owner(server: &RedisServer, slot: i64) -> Option<u16> {
    owners(server)
        .into_iter()
        .find(|(first, last, _)| (*first..=*last).contains(&slot))
        .map(|(.., port)| port)
}

/// Returns whether every slot is served and every node has joined.
fn is_well(server: &RedisServer) -> bool {
    let info = server.command(&["CLUSTER", "INFO"]);
    let lines: BTreeSet<_> = info.text().lines().collect();
    let all = format!("cluster_slots_ok:{SLOTS}");
    ["cluster_state:ok", &all, &format!("cluster_known_nodes:{}", 2 * MASTERS)]
        .into_iter()
        .all(|line| lines.contains(line))
}
