//! A master with replicas, and the sentinels that monitor it.

use super::{RedisServer, RedisServerBuilder, config::OWN_USER, launch, raw};
use std::{
    fmt,
    thread::sleep,
    time::{Duration, Instant},
};

/// The time limit for forming the deployment and for a failover.
const PATIENCE: Duration = Duration::from_secs(60);

const PAUSE: Duration = Duration::from_millis(20);

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
        deployment.wait("the sentinels and servers have discovered each other", |deployment| {
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
        self.url_of("redis-sentinel", RedisServer::port)
    }

    /// Returns the TLS URL, `rediss-sentinel://…`, for servers and sentinels that were built with TLS.
    #[must_use]
    pub fn tls_url(&self) -> String {
        self.url_of("rediss-sentinel", RedisServer::spoken_port)
    }

    fn url_of(&self, scheme: &str, port: fn(&RedisServer) -> u16) -> String {
        let addresses = self.sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", port(sentinel)));
        format!("{scheme}://{}/{}", addresses.collect::<Vec<_>>().join(","), Self::MASTER)
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
        let mut answer = None;
        self.wait("the sentinels agree to a failover", |deployment| {
            let said = deployment.sentinels[0].command(&["SENTINEL", "FAILOVER", Self::MASTER]);
            let agreed = !said.is_error();
            answer = Some(said);
            agreed
        });
        self.wait("another server is the master", |deployment| deployment.master().port() != old);
    }

    /// Waits until all running servers follow one master.
    ///
    /// # Panics
    /// Panics if they do not agree on a master in time.
    #[track_caller]
    pub fn settle(&self) {
        self.wait("all servers follow one master", |deployment| {
            let master = deployment.master();
            let follow = |server: &RedisServer| {
                // Sentinels disconnect all clients of a server whose role they change.
                let role = launch::log_in(server.address(), raw::TIMEOUT)
                    .and_then(|mut connection| connection.try_command(&["ROLE"]));
                let Ok(role) = role else { return false };
                let words = role.list();
                if server.port() == master.port() {
                    words[0].text() == "master" && words[2].list().len() + 1 == deployment.servers.len()
                } else {
                    words[0].text() == "slave"
                        && words[2].integer() == i64::from(master.spoken_port())
                        && words[3].text() == "connected"
                }
            };
            deployment.servers.iter().filter(|server| server.pid().is_some()).all(follow)
        });
    }

    #[track_caller]
    fn wait(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let begin = Instant::now();
        while !holds(self) {
            if begin.elapsed() > PATIENCE {
                let logs: Vec<_> = self.sentinels.iter().map(RedisServer::log).collect();
                panic!(
                    "timed out after {PATIENCE:?} waiting until {what}; sentinel logs:\n{}",
                    logs.join("\n")
                );
            }
            sleep(PAUSE);
        }
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
