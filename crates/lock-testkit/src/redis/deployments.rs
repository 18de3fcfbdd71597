//! Several servers that belong together: a cluster, a quorum, and a master with sentinels.

use super::{
    RawValue, RedisServer, RedisServerBuilder,
    launch::{self, OWN_USER},
    raw,
};
use crate::process::PATIENCE;
use std::{
    collections::BTreeSet,
    fmt,
    thread::sleep,
    time::{Duration, Instant},
};

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
        url("redis-cluster", &self.servers[..MASTERS], RedisServer::port)
    }

    /// Returns the TLS URL, `rediss-cluster://…`, for nodes that were built with TLS.
    #[must_use]
    pub fn tls_url(&self) -> String {
        url("rediss-cluster", &self.servers[..MASTERS], RedisServer::spoken_port)
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
        wait_until("the nodes agree", &self.servers, || {
            let views: BTreeSet<_> = self.living().map(|server| format!("{:?}", owners(server))).collect();
            views.len() == 1 && self.living().all(is_well)
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
            wait_until("the replica discovers its master", &self.servers, || {
                !replica.command(&["CLUSTER", "REPLICATE", &id]).is_error()
            });
        }
        self.settle();
        wait_until("the replicas have copied their data", &self.servers, || {
            replicas.iter().all(|replica| match replica.command(&["ROLE"]).list() {
                [role, _, _, link, ..] => (role.text(), link.text()) == ("slave", "connected"),
                _ => false,
            })
        });
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

/// Independent servers, each of which is a separate [`RedisServer`] process.
#[derive(Debug)]
pub struct RedisQuorum {
    servers: Vec<RedisServer>,
}

impl RedisQuorum {
    /// Starts this many servers.
    ///
    /// # Panics
    /// Panics under the same conditions as [`RedisServer::start`].
    #[must_use]
    #[track_caller]
    pub fn start(nodes: usize) -> Self {
        Self::with(nodes, |server| server)
    }

    /// Starts the servers like [`start`](Self::start), with custom settings for each.
    ///
    /// # Panics
    /// Panics under the same conditions as [`RedisServer::start`].
    #[must_use]
    #[track_caller]
    pub fn with(nodes: usize, server: impl Fn(RedisServerBuilder) -> RedisServerBuilder) -> Self {
        Self { servers: (0..nodes).map(|_| server(RedisServer::builder()).start()).collect() }
    }

    /// Returns the quorum's URL, `redlock://127.0.0.1:port,…`.
    #[must_use]
    pub fn url(&self) -> String {
        url("redlock", &self.servers, RedisServer::port)
    }

    /// Returns the TLS URL, `redlocks://…`, for servers that were built with TLS.
    #[must_use]
    pub fn tls_url(&self) -> String {
        url("redlocks", &self.servers, RedisServer::spoken_port)
    }

    /// Returns the servers, in the order in which the URL lists them.
    #[must_use]
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }
}

/// A master, its replicas, and three sentinels that monitor it.
///
/// Each is a separate [`RedisServer`] process. All methods block.
pub struct RedisSentinels {
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
}

impl RedisSentinels {
    /// The name of the master.
    pub const MASTER: &str = "main";

    /// Starts one master, two replicas and three sentinels, and waits until they have discovered
    /// each other.
    ///
    /// # Panics
    /// Panics under the same conditions as [`RedisServer::start`].
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::with(|server| server, |sentinel| sentinel)
    }

    /// Starts the deployment like [`start`](Self::start), with custom settings for each server and
    /// sentinel.
    ///
    /// # Panics
    /// Panics under the same conditions as [`RedisServer::start`].
    #[must_use]
    #[track_caller]
    pub fn with(
        server: impl Fn(RedisServerBuilder) -> RedisServerBuilder,
        sentinel: impl Fn(RedisServerBuilder) -> RedisServerBuilder,
    ) -> Self {
        let replicating = || {
            let builder = RedisServer::builder().config("masteruser", OWN_USER);
            server(builder.config("masterauth", OWN_USER).config("repl-diskless-load", "swapdb"))
        };
        let mut servers = vec![replicating().start()];
        for _ in 0..2 {
            let replica = replicating().replica_of(&servers[0]).start();
            servers.push(replica);
        }
        let sentinels =
            (0..3).map(|_| sentinel(RedisServer::builder()).watches(&servers[0]).start()).collect();
        let deployment = Self { servers, sentinels };
        wait_until("the sentinels and servers have discovered each other", &deployment.sentinels, || {
            deployment.sentinels.iter().all(|sentinel| {
                let field = |name| state(sentinel, name);
                (field("num-slaves").as_deref(), field("num-other-sentinels").as_deref())
                    == (Some("2"), Some("2"))
            })
        });
        deployment
    }

    /// Returns the deployment's URL, `redis-sentinel://127.0.0.1:port,…/main`.
    #[must_use]
    pub fn url(&self) -> String {
        url("redis-sentinel", &self.sentinels, RedisServer::port) + "/" + Self::MASTER
    }

    /// Returns the TLS URL, `rediss-sentinel://…`, for servers and sentinels that were built with TLS.
    #[must_use]
    pub fn tls_url(&self) -> String {
        url("rediss-sentinel", &self.sentinels, RedisServer::spoken_port) + "/" + Self::MASTER
    }

    /// Returns the servers. The first one is the initial master.
    #[must_use]
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// Returns the sentinels.
    #[must_use]
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// Returns the master, according to the sentinels.
    ///
    /// # Panics
    /// Panics if no sentinel responds.
    #[must_use]
    #[track_caller]
    pub fn master(&self) -> &RedisServer {
        let port: u16 = self
            .sentinels
            .iter()
            .find_map(|sentinel| state(sentinel, "port"))
            .and_then(|p| p.parse().ok())
            .expect("no sentinel names a master");
        self.servers
            .iter()
            .find(|server| server.spoken_port() == port)
            .expect("the master is one of the servers")
    }

    /// Makes the sentinels promote another server, and returns once they report it as the master.
    ///
    /// # Panics
    /// Panics if the sentinels refuse, for example because there is no suitable replica.
    #[track_caller]
    pub fn fail_over(&self) {
        let old = self.master().port();
        wait_until("the sentinels agree to a failover", &self.sentinels, || {
            !self.sentinels[0].command(&["SENTINEL", "FAILOVER", Self::MASTER]).is_error()
        });
        wait_until("another server is the master", &self.sentinels, || self.master().port() != old);
    }

    /// Waits until all running servers follow one master.
    ///
    /// # Panics
    /// Panics if they do not agree on a master in time.
    #[track_caller]
    pub fn settle(&self) {
        wait_until("all servers follow one master", &self.sentinels, || {
            let master = self.master();
            let follow = |server: &RedisServer| {
                // Sentinels disconnect all clients of a server whose role they change.
                let role = launch::log_in(server.address(), raw::TIMEOUT)
                    .and_then(|mut connection| connection.try_command(&["ROLE"]));
                let Ok(role) = role else { return false };
                let words = role.list();
                if server.port() == master.port() {
                    words[0].text() == "master" && words[2].list().len() + 1 == self.servers.len()
                } else {
                    words[0].text() == "slave"
                        && words[2].integer() == i64::from(master.spoken_port())
                        && words[3].text() == "connected"
                }
            };
            self.servers.iter().filter(|server| server.pid().is_some()).all(follow)
        });
    }
}

impl fmt::Debug for RedisSentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSentinels")
            .field("servers", &self.servers)
            .field("sentinels", &self.sentinels)
            .finish()
    }
}

/// Returns a field of the master's state from a sentinel, or `None` if the sentinel does not
/// respond.
fn state(sentinel: &RedisServer, name: &str) -> Option<String> {
    sentinel.pid()?;
    let answer = sentinel.command(&["SENTINEL", "MASTER", RedisSentinels::MASTER]);
    let words: Vec<_> = answer.list().iter().map(|word| word.text().to_owned()).collect();
    words.chunks(2).find(|pair| pair[0] == name).map(|pair| pair[1].clone())
}

/// Waits until the condition holds.
///
/// # Panics
/// Panics with the servers' logs if that takes too long.
#[track_caller]
fn wait_until(what: &str, servers: &[RedisServer], mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        if begin.elapsed() > PATIENCE {
            let logs: Vec<_> = servers.iter().map(RedisServer::log).collect();
            panic!("timed out after {PATIENCE:?} waiting until {what}; logs:\n{}", logs.join("\n"));
        }
        sleep(Duration::from_millis(20));
    }
}

/// Returns a URL that lists these servers.
fn url(scheme: &str, servers: &[RedisServer], port: fn(&RedisServer) -> u16) -> String {
    let addresses: Vec<_> = servers.iter().map(|server| format!("127.0.0.1:{}", port(server))).collect();
    format!("{scheme}://{}", addresses.join(","))
}
