//! The settings of a backend, and how its connections are made.

use crate::{
    backend::RedisBackend, check, error::connecting, link::Link, secret::Secrets, url, wake::Subscriptions,
};
use fred::{
    error::Error,
    types::{
        Builder, RespVersion,
        config::{Config, ReconnectPolicy, ServerConfig},
    },
};
use lock_core::{Applied, BackendError, BackendErrorKind, LockError};
use std::{fmt, time::Duration};

/// How long an unused fencing counter is kept by default.
const RETENTION: Duration = Duration::from_secs(60 * 60);
/// Below it, counters in use would be lost.
const SHORTEST_RETENTION: Duration = Duration::from_secs(1);
/// Above it, servers refuse an expiry some day.
const LONGEST_RETENTION: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);
/// How long a connection may take to be made by default.
const CONNECT: Duration = Duration::from_secs(5);
/// The pause between two attempts to connect again, in milliseconds, and how much longer it is at random: a server that
/// comes back when a third of a short lease is left has to be found in time for a renewal.
const RECONNECT_MS: (u32, u32) = (150, 100);
/// Requests that the server does not answer for that long fail, whatever their callers want: the backstop behind the
/// operation timeouts of the locks.
const BACKSTOP: Duration = Duration::from_secs(30);
/// More requests than that under way are refused: a factory has one for each name at most.
const REQUESTS: usize = 200_000;
/// Wake-ups that may wait for their reader; those beyond count as "all names". fred makes room for as many in each of its
/// channels at once: eight times as many were 10 MB for each backend.
const MESSAGES: usize = 1_024;

/// The settings of a [`RedisBackend`].
///
/// | option | default | meaning |
/// | --- | --- | --- |
/// | [`retention`](Self::retention) | 1 h | how long the fencing counter of a name is kept after its latest grant |
/// | [`connect_timeout`](Self::connect_timeout) | 5 s | how long a connection may take to be made, now and later |
/// | `tls` (feature `tls`) | by the URL | whom to trust, which certificate to show |
///
/// ```no_run
/// # #[tokio::main] async fn main() -> Result<(), lock_core::LockError> {
/// use lock_fred::RedisBackendBuilder;
/// use std::time::Duration;
///
/// let backend = RedisBackendBuilder::from_url("redis://:secret@cache:6379/2")?
///     .connect_timeout(Duration::from_secs(2))
///     .connect()
///     .await?;
/// # Ok(()) }
/// ```
#[must_use]
pub struct RedisBackendBuilder {
    config: Config,
    retention: Option<Duration>,
    connect_timeout: Duration,
    #[cfg(feature = "tls")]
    tls: Option<crate::tls::Tls>,
}

impl RedisBackendBuilder {
    /// Of a URL; [`Redis`](crate::Redis) says of which form.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidUrl`](lock_core::ErrorKind::InvalidUrl); the text says what to change and never has the
    /// URL, which may have a password.
    pub fn from_url(url: &str) -> Result<Self, LockError> {
        url::parse(url)
    }

    /// Of a configuration of fred, for programs that have one: server, user, password, database and TLS are taken
    /// from it. Policies for retries, timeouts and reconnection are not part of it; locks need their own: a client of yours
    /// cannot be shared, since it may send a command twice.
    pub fn from_config(config: Config) -> Self {
        Self {
            config,
            retention: Some(RETENTION),
            connect_timeout: CONNECT,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    /// Sets how long the fencing counter of a name is kept after its latest grant. The default is 1 h; from 1 s to 100
    /// years.
    ///
    /// Tokens follow the server's clock and go on rising after a counter has ended, so the retention only bounds what unused
    /// names leave behind: about 100 bytes each. It is also set on a counter that Redisson made.
    ///
    /// `None` leaves the expiry of a counter as it is, and makes new ones without any. A fleet that shares *fenced* locks
    /// with Redisson needs it: Redisson restarts a missing counter at 1, and its tokens are then refused as old. Otherwise a
    /// counter that is found far below the clock is logged as a warning, once for each backend.
    pub fn retention(mut self, retention: Option<Duration>) -> Self {
        self.retention = retention;
        self
    }

    /// How long a connection may take to be made, and then to be checked; the same limit holds for
    /// each reconnect. 5 s by default, not zero.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Secures the connections, whatever the URL says: also those of a `redis://`.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: crate::tls::Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Connects, and checks what the server is and what we may do there.
    ///
    /// The connections live in the current tokio runtime and end with it.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`](lock_core::ErrorKind::Unavailable) if nobody answers in time;
    /// [`ErrorKind::Backend`](lock_core::ErrorKind::Backend) if the server wants another password, lacks a right
    /// (named in the text), is too old, or is not of a kind that can keep locks. What is usable but doubtful is
    /// logged, and kept in [`RedisBackend::warnings`].
    ///
    /// # Cancel safety
    /// Dropping it closes the connections.
    pub async fn connect(self) -> Result<RedisBackend, LockError> {
        let (retention, limit) = (self.retention, self.connect_timeout);
        if retention.is_some_and(|retention| !(SHORTEST_RETENTION..=LONGEST_RETENTION).contains(&retention)) {
            return Err(misconfigured(
                "the retention is not from 1 s to 100 years: give another, or `None` for ever",
            ));
        }
        if limit.is_zero() {
            return Err(misconfigured("a `connect_timeout` of zero leaves no time to connect: give some"));
        }
        let place = place(&self.config.server)?;
        let tls = self.is_secured();
        let secrets = Secrets::of(&self.config);
        let builder = self.client_builder()?;
        let open = async {
            let (commands, wake_ups) =
                (Link::open(&builder, &secrets).await?, Link::open(&builder, &secrets).await?);
            Ok::<_, Error>((commands, wake_ups))
        };
        let (commands, wake_ups) = match tokio::time::timeout(limit, open).await {
            Ok(Ok(links)) => links,
            Ok(Err(error)) => return Err(connecting(&place, tls, &error).into()),
            Err(_) => return Err(nobody_answers(&place, tls, limit)),
        };
        let backend = RedisBackend::new(commands.kept_alive(), Subscriptions::new(wake_ups), retention);
        match tokio::time::timeout(limit, check::run(backend)).await {
            Ok(checked) => checked,
            Err(_) => Err(nobody_answers(&place, tls, limit)),
        }
    }

    fn client_builder(self) -> Result<Builder, LockError> {
        let mut config = self.config;
        // It logs in with AUTH, which every server knows; one that does not know HELLO quotes the password.
        config.version = RespVersion::RESP2;
        config.fail_fast = true;
        #[cfg(feature = "tls")]
        if let Some(tls) = self.tls {
            config.tls = Some(tls.connector()?.into());
        }
        let limit = self.connect_timeout;
        let mut builder = Builder::from_config(config);
        builder
            .set_policy(reconnect_policy())
            .with_performance_config(|c| {
                c.default_command_timeout = BACKSTOP;
                c.broadcast_channel_capacity = MESSAGES;
            })
            .with_connection_config(|c| {
                // A command that may have run is never sent again behind our back.
                c.max_command_attempts = 1;
                c.max_command_buffer_len = REQUESTS;
                c.connection_timeout = limit;
                // Not before it: what ours says when it is over tells more.
                c.internal_command_timeout = limit * 2;
                // It would answer everything under way with the error that one request got.
                c.reconnect_errors = Vec::new();
                c.tcp.nodelay = Some(true);
            });
        Ok(builder)
    }

    #[cfg(test)]
    pub(crate) fn into_config(self) -> Config {
        self.config
    }

    #[cfg(feature = "tls")]
    pub(crate) fn is_secured(&self) -> bool {
        self.tls.is_some() || self.config.tls.is_some()
    }

    #[cfg(not(feature = "tls"))]
    fn is_secured(&self) -> bool {
        false
    }
}

/// For ever. The policies that grow cut the jitter off at their longest pause, where all processes would be in step.
fn reconnect_policy() -> ReconnectPolicy {
    let (pause, jitter) = RECONNECT_MS;
    let mut policy = ReconnectPolicy::new_constant(0, pause);
    policy.set_jitter(jitter);
    policy
}

/// The address, which is no secret; what is not supported is refused here.
fn place(server: &ServerConfig) -> Result<String, LockError> {
    match server {
        ServerConfig::Centralized { server } => Ok(format!("{}:{}", server.host, server.port)),
        ServerConfig::Unix { path } => Ok(path.display().to_string()),
        ServerConfig::Clustered { .. } | ServerConfig::Sentinel { .. } => Err(misconfigured(
            "Cluster and Sentinel are not supported: give the address of one standalone server",
        )),
    }
}

fn misconfigured(why: &str) -> LockError {
    let message = format!("connect to redis: {why}");
    BackendError::new(BackendErrorKind::Misconfigured, Applied::No, message).into()
}

fn nobody_answers(place: &str, tls: bool, limit: Duration) -> LockError {
    let cure = match tls {
        true => "does it run, and does it speak TLS? If not, write `redis://`",
        false => "is it a redis, and does it run?",
    };
    let message = format!("connect to redis at {place}: no answer within {limit:?}: {cure}");
    BackendError::new(BackendErrorKind::Timeout, Applied::No, message).into()
}

impl fmt::Debug for RedisBackendBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the configuration: it has the password.
        f.debug_struct("RedisBackendBuilder")
            .field("retention", &self.retention)
            .field("connect_timeout", &self.connect_timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn reconnects_are_not_in_step() {
        let mut policy = reconnect_policy();
        let pauses: BTreeSet<_> = (0..100).map(|_| policy.next_delay().expect("it never gives up")).collect();
        assert!(pauses.len() > 20, "{pauses:?}");
        assert!(pauses.iter().all(|pause| (150..=250).contains(pause)), "{pauses:?}");
    }
}
