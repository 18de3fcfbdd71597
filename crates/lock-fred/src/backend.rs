//! Redis as a backend: each operation is one script, in one round trip.

use crate::{
    answer::{Raw, renewals},
    builder::RedisBackendBuilder,
    check::ConnectWarning,
    clock::ServerClock,
    error::is_read_only,
    keys::Keys,
    link::Link,
    script::{self, Script},
    wake::Subscriptions,
};
use async_trait::async_trait;
use fred::interfaces::ClientLike;
use futures_util::future::join_all;
use lock_core::{
    Applied, Backend, BackendError, BackendErrorKind, LockError, LockName, ProcessId, ServerTime,
    backend::{
        AcquireRequest, Acquired, Capabilities, ForceRelease, Forced, Inspected, Publish, ReleaseRequest,
        Released, RenewItem, Renewed, Reply, Signals, Store, SubscriberId, Wish,
    },
};
use std::{
    fmt,
    sync::{
        Arc, Once, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Locks on one Redis server, in the layout of Redisson.
///
/// Made by [`connect`](Self::connect) or [`RedisBackendBuilder`]. Clones share their two connections, which close with
/// the last clone; they live in the tokio runtime in which they were made.
#[derive(Clone)]
pub struct RedisBackend {
    inner: Arc<Inner>,
    warnings: Arc<[ConnectWarning]>,
}

struct Inner {
    link: Link,
    subscriptions: Subscriptions,
    clock: ServerClock,
    retention: Option<Duration>,
    /// Said once: in a fleet that shares fenced locks with Redisson it concerns every name.
    foreign_counters: Once,
    /// Whether the rights that the ledger needs were tried.
    ledger_probed: AtomicBool,
}

impl Inner {
    /// Warns if the counter of a name was found far below the clock, once for each backend. Without a retention there is
    /// nothing to change.
    fn look_at_counter(&self, name: &LockName, answer: &Raw) {
        if self.retention.is_some() && answer.has_foreign_counter() {
            self.foreign_counters.call_once(|| {
                tracing::warn!(
                    lock = %name,
                    "a fencing counter was far below the clock: Redisson began it, perhaps after ours had ended, and \
                     its tokens are older than ours; where fenced locks are shared with Redisson, use retention(None)"
                );
            });
        }
    }
}

impl RedisBackend {
    /// Connects to `redis://[user:password@]host[:port][/database]`, or what else [`Redis`](crate::Redis) lists, with
    /// the defaults of [`RedisBackendBuilder`].
    ///
    /// # Errors
    /// As [`RedisBackendBuilder::from_url`] and [`RedisBackendBuilder::connect`].
    ///
    /// # Cancel safety
    /// Dropping it closes the connections.
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        RedisBackendBuilder::from_url(url)?.connect().await
    }

    /// What about the server works today and may lose locks some day; also logged when it was connected.
    #[must_use]
    pub fn warnings(&self) -> &[ConnectWarning] {
        &self.warnings
    }

    /// Whether there is a connection for requests now, as far as is known without asking.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.inner.link.is_up()
    }

    /// Asks the server for a sign of life, and says how long it took: for health checks.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`](lock_core::ErrorKind::Unavailable) without a connection, or when it is lost meanwhile.
    /// A server that is silent is waited for; set a time-out of your own.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn ping(&self) -> Result<Duration, LockError> {
        let (link, asked) = (&self.inner.link, Instant::now());
        link.ask("ping", link.client.ping::<()>(None)).await?;
        Ok(asked.elapsed())
    }

    pub(crate) fn new(link: Link, subscriptions: Subscriptions, retention: Option<Duration>) -> Self {
        let inner = Inner {
            link,
            subscriptions,
            clock: ServerClock::default(),
            retention,
            foreign_counters: Once::new(),
            ledger_probed: AtomicBool::new(false),
        };
        Self { inner: Arc::new(inner), warnings: Arc::new([]) }
    }

    pub(crate) fn with_warnings(self, warnings: Vec<ConnectWarning>) -> Self {
        Self { warnings: warnings.into(), ..self }
    }

    pub(crate) async fn server_info(&self) -> Result<String, BackendError> {
        let link = &self.inner.link;
        link.ask("info", link.client.info(None)).await
    }

    /// Tries every command that is needed.
    pub(crate) async fn probe(&self, keys: Keys) -> Result<(), BackendError> {
        let Keys { lock, counter, channel } = keys;
        self.inner.subscriptions.probe(channel.clone()).await?;
        self.run(&script::PROBE, vec![lock, counter], vec![channel, String::new()]).await?.probed()
    }

    /// Tries every command that the ledger needs, once for this backend.
    pub(crate) async fn probe_ledger(&self) -> Result<(), BackendError> {
        if self.inner.ledger_probed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let Keys { lock, counter, channel } = Keys::reserved(&format!("check:{}", ProcessId::random()));
        let args = vec![channel, "ledger".to_owned()];
        self.run(&script::PROBE, vec![lock, counter], args).await?.probed()?;
        self.inner.ledger_probed.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The server's time as far as it is known.
    pub(crate) fn server_time(&self) -> Option<ServerTime> {
        self.inner.clock.now()
    }

    /// Runs a script and learns the server's clock from its answer.
    pub(crate) async fn run(
        &self,
        script: &Script,
        keys: Vec<String>,
        args: Vec<String>,
    ) -> Result<Raw, BackendError> {
        let sent = Instant::now();
        let answer = script.run(&self.inner.link, keys, args).await;
        let raw = Raw::read(script.name, answer.inspect_err(|error| self.look_at(error))?)?;
        self.inner.clock.learn(sent, raw.now);
        Ok(raw)
    }

    async fn renew_together(
        &self,
        items: &[RenewItem],
    ) -> Result<Vec<Result<Reply<Renewed>, BackendError>>, BackendError> {
        let sent = Instant::now();
        let keys = items.iter().map(|item| item.name.as_str().to_owned()).collect();
        let item_args = |item: &RenewItem| {
            [item.lease.to_string(), millis(item.duration), item.not_after.as_micros().to_string()]
        };
        let args = items.iter().flat_map(item_args).collect();
        let answer = script::RENEW.run(&self.inner.link, keys, args).await;
        let (now, answers) = renewals(answer.inspect_err(|error| self.look_at(error))?, items.len())?;
        self.inner.clock.learn(sent, now);
        answers.iter().filter_map(|answer| answer.as_ref().err()).for_each(|error| self.look_at(error));
        Ok(answers)
    }

    /// A master that has become a replica: replaces both connections, since the address may lead elsewhere by now.
    fn look_at(&self, error: &BackendError) {
        if is_read_only(error) {
            self.inner.link.replace();
            self.inner.subscriptions.link().replace();
        }
    }
}

#[async_trait]
impl Backend for RedisBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new("redis")
    }

    fn server_now(&self, _: &LockName) -> Option<ServerTime> {
        self.server_time()
    }

    async fn acquire(&self, r: AcquireRequest) -> Result<Reply<Acquired>, BackendError> {
        let Keys { lock, counter, .. } = Keys::of(&r.name);
        match r.wish {
            Wish::Next { reserve, floor } => {
                let args = vec![
                    r.lease.to_string(),
                    millis(r.duration),
                    r.not_after.as_micros().to_string(),
                    reserve.to_string(),
                    floor.map_or_else(String::new, |floor| floor.to_string()),
                    r.retention.unless(self.inner.retention).map_or_else(String::new, millis),
                ];
                let answer = self.run(&script::ACQUIRE, vec![lock, counter], args).await?;
                self.inner.look_at_counter(&r.name, &answer);
                answer.acquired()
            }
            Wish::Keep { depth } => {
                let not_after = r.not_after.as_micros().to_string();
                let args = vec![r.lease.to_string(), millis(r.duration), depth.to_string(), not_after];
                self.run(&script::KEEP, vec![lock], args).await?.acquired()
            }
            _ => {
                let message = "asked one redis for the vote of a quorum node: give it a plain acquire";
                Err(BackendError::new(BackendErrorKind::Unsupported, Applied::No, message))
            }
        }
    }

    async fn renew(&self, items: Vec<RenewItem>) -> Vec<Result<Reply<Renewed>, BackendError>> {
        if items.is_empty() {
            return Vec::new();
        }
        match self.renew_together(&items).await {
            Ok(answers) => answers,
            // The server looks at the rights on all keys of a script before it runs: each is asked for by itself.
            Err(error) if error.kind() == BackendErrorKind::Denied && items.len() > 1 => {
                let alone = |item| async move { self.renew_together(std::slice::from_ref(item)).await };
                let answers = join_all(items.iter().map(alone)).await.into_iter();
                answers.map(|answer| answer.and_then(|mut one| one.remove(0))).collect()
            }
            Err(error) => items.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn release(&self, r: ReleaseRequest) -> Result<Reply<Released>, BackendError> {
        let Keys { lock, channel, .. } = Keys::of(&r.name);
        // The channel is an argument: as a key it would want a right to a key of its name.
        let channel = if r.publish == Publish::Yes { channel } else { String::new() };
        let args = vec![r.lease.to_string(), r.depth_left.to_string(), channel];
        self.run(&script::RELEASE, vec![lock], args).await?.released()
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        self.run(&script::INSPECT, vec![Keys::of(&name).lock], Vec::new()).await?.inspected()
    }

    async fn force_release(&self, r: ForceRelease) -> Result<Reply<Forced>, BackendError> {
        let Keys { lock, channel, .. } = Keys::of(&r.name);
        self.run(&script::FORCE, vec![lock], vec![r.seen, channel]).await?.forced()
    }
}

#[async_trait]
impl lock_core::backend::Subscriptions for RedisBackend {
    fn register_listener(&self, listener: Weak<dyn Signals>) -> SubscriberId {
        self.inner.subscriptions.attach(listener)
    }

    async fn subscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.inner.subscriptions.watch(subscriber, name).await
    }

    async fn unsubscribe(&self, subscriber: SubscriberId, name: LockName) -> Result<(), BackendError> {
        self.inner.subscriptions.unwatch(subscriber, &name);
        Ok(())
    }
}

impl From<RedisBackend> for Store {
    fn from(redis: RedisBackend) -> Self {
        Self::from(Arc::new(redis))
    }
}

/// At least one: an expiry of 0 would be none.
pub(crate) fn millis(d: Duration) -> String {
    d.as_millis().max(1).to_string()
}

impl fmt::Debug for RedisBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the configuration: it has the password.
        f.debug_struct("RedisBackend").finish_non_exhaustive()
    }
}
