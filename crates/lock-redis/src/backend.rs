//! Redis as a backend: each operation is one script, in one round trip.

use crate::{
    check::ConnectWarning,
    client::Client,
    clock::ServerClock,
    connection::{ManagedConnection, ReplaceReason},
    error::RequestError,
    keys::Keys,
    script::{self, Input, Script},
    script_reply::{Renewals, ScriptReply, renewals},
    wake::Subscriptions,
};
use async_trait::async_trait;
use futures_util::future::join_all;
use lock_core::{
    LockError, LockName,
    backend::{
        AcquireMode, AcquireRequest, Acquired, Applied, Backend, BackendError, BackendErrorKind,
        Capabilities, ForceReleaseRequest, ForceReleased, Inspected, NotifyWaiters, ProcessId,
        ReleaseRequest, Released, RenewRequest, Renewed, Reply, Store, SubscriberId, WakeListener,
    },
    clock::ServerTime,
};
use std::{
    fmt,
    sync::{
        Arc, Once, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// Locks on one Redis server, in the layout of Redisson, over the client library `C`.
///
/// Made by [`connect`](Self::connect) or [`RedisBackendBuilder`](crate::RedisBackendBuilder). Clones share their two connections, which close with
/// the last clone; they live in the tokio runtime in which they were made.
pub struct RedisBackend<C: Client> {
    inner: Arc<Inner<C>>,
    warnings: Arc<[ConnectWarning]>,
}

struct Inner<C: Client> {
    connection: ManagedConnection<C>,
    subscriptions: Subscriptions<C>,
    clock: ServerClock,
    retention: Option<Duration>,
    /// Said once: in a fleet that shares fenced locks with Redisson it concerns every name.
    foreign_counters: Once,
    /// Whether the rights that the ledger needs were tried.
    ledger_probed: AtomicBool,
}

impl<C: Client> Inner<C> {
    /// Warns if the counter of a name was found far below the clock, once for each backend. Without a retention there is
    /// nothing to change.
    fn warn_of_foreign_counter(&self, name: &LockName, reply: &ScriptReply) {
        if self.retention.is_some() && reply.has_foreign_counter() {
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

impl<C: Client> RedisBackend<C> {
    /// What about the server works today and may lose locks some day; also logged when it was connected.
    #[must_use]
    pub fn warnings(&self) -> &[ConnectWarning] {
        &self.warnings
    }

    /// Whether there is a connection for requests now, as far as is known without asking.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.inner.connection.is_up()
    }

    /// Asks the server for a sign of life, and says how long it took: for health checks.
    ///
    /// # Errors
    /// [`LockErrorKind::Unavailable`](lock_core::LockErrorKind::Unavailable) without a connection, or when it is lost meanwhile.
    /// A silent server is waited for between 2 and 3 s; set a time-out of your own for less.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn ping(&self) -> Result<Duration, LockError> {
        let asked = Instant::now();
        self.inner.connection.ping("ping").await?;
        Ok(asked.elapsed())
    }

    pub(crate) fn new(
        connection: ManagedConnection<C>,
        subscriptions: Subscriptions<C>,
        clock: ServerClock,
        retention: Option<Duration>,
        warnings: Vec<ConnectWarning>,
    ) -> Self {
        let inner = Inner {
            connection,
            subscriptions,
            clock,
            retention,
            foreign_counters: Once::new(),
            ledger_probed: AtomicBool::new(false),
        };
        Self { inner: Arc::new(inner), warnings: warnings.into() }
    }

    /// Tries every command that the ledger needs, once for this backend.
    pub(crate) async fn probe_ledger(&self) -> Result<(), RequestError> {
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
        script: &'static Script,
        keys: Vec<String>,
        args: Vec<String>,
    ) -> Result<ScriptReply, RequestError> {
        self.run_with(script, || Input { keys: keys.clone(), args: args.clone() }).await
    }

    /// The same without a copy of the keys and arguments.
    async fn run_with(
        &self,
        script: &'static Script,
        input: impl Fn() -> Input,
    ) -> Result<ScriptReply, RequestError> {
        let sent = Instant::now();
        let reply = script.run(&self.inner.connection, input).await;
        let reply = reply.and_then(|reply| ScriptReply::read(script.name, reply));
        let reply = reply.inspect_err(|error| self.reconnect_if_read_only(error))?;
        self.inner.clock.learn(sent, reply.now);
        Ok(reply)
    }

    async fn renew_together(&self, items: &[RenewRequest]) -> Result<Renewals, RequestError> {
        let sent = Instant::now();
        let item_args = |item: &RenewRequest| {
            [item.lease.to_string(), millis(item.duration), item.not_after.as_micros().to_string()]
        };
        let input = || Input {
            keys: items.iter().map(|item| item.name.as_str().to_owned()).collect(),
            args: items.iter().flat_map(item_args).collect(),
        };
        let reply = script::RENEW.run(&self.inner.connection, input).await;
        let reply = reply.and_then(|reply| renewals(reply, items.len()));
        let (now, answers) = reply.inspect_err(|error| self.reconnect_if_read_only(error))?;
        self.inner.clock.learn(sent, now);
        for error in answers.iter().filter_map(|answer| answer.as_ref().err()) {
            self.reconnect_if_read_only(error);
        }
        Ok(answers)
    }

    /// A master that has become a replica: replaces both connections, since the address may lead elsewhere by now.
    fn reconnect_if_read_only(&self, error: &RequestError) {
        if error.is_read_only() {
            self.inner.connection.replace(ReplaceReason::ReadOnly);
            self.inner.subscriptions.replace(ReplaceReason::ReadOnly);
        }
    }
}

#[async_trait]
impl<C: Client> Backend for RedisBackend<C> {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new("redis")
    }

    fn server_now(&self, _: &LockName) -> Option<ServerTime> {
        self.server_time()
    }

    async fn acquire(&self, r: AcquireRequest) -> Result<Reply<Acquired>, BackendError> {
        let not_after = || r.not_after.as_micros().to_string();
        match r.mode {
            AcquireMode::New { reserve, floor } => {
                let input = || {
                    let Keys { lock, counter, .. } = Keys::of(&r.name);
                    let args = vec![
                        r.lease.to_string(),
                        millis(r.duration),
                        not_after(),
                        reserve.to_string(),
                        floor.map_or_else(String::new, |floor| floor.to_string()),
                        r.retention.unless(self.inner.retention).map_or_else(String::new, millis),
                    ];
                    Input { keys: vec![lock, counter], args }
                };
                let reply = self.run_with(&script::ACQUIRE, input).await?;
                self.inner.warn_of_foreign_counter(&r.name, &reply);
                Ok(reply.acquired()?)
            }
            AcquireMode::Reenter { depth } => {
                let input = || Input {
                    keys: vec![Keys::of(&r.name).lock],
                    args: vec![r.lease.to_string(), millis(r.duration), depth.to_string(), not_after()],
                };
                Ok(self.run_with(&script::REENTER, input).await?.acquired()?)
            }
            _ => {
                let message = "asked one redis for the vote of a quorum node: give it a plain acquire";
                Err(BackendError::new(BackendErrorKind::Unsupported, Applied::No, message))
            }
        }
    }

    async fn renew(&self, items: Vec<RenewRequest>) -> Vec<Result<Reply<Renewed>, BackendError>> {
        if items.is_empty() {
            return Vec::new();
        }
        match self.renew_together(&items).await {
            Ok(answers) => answers.into_iter().map(|answer| Ok(answer?)).collect(),
            // The server looks at the rights on all keys of a script before it runs: each is asked for by itself.
            Err(error) if error.kind() == BackendErrorKind::Denied && items.len() > 1 => {
                let alone = |item| async move { self.renew_together(std::slice::from_ref(item)).await };
                let answers = join_all(items.iter().map(alone)).await.into_iter();
                answers.map(|answer| Ok(answer.and_then(|mut one| one.remove(0))?)).collect()
            }
            Err(error) => items.iter().map(|_| Err(error.clone().into())).collect(),
        }
    }

    async fn release(&self, r: ReleaseRequest) -> Result<Reply<Released>, BackendError> {
        let input = || {
            let Keys { lock, channel, .. } = Keys::of(&r.name);
            // The channel is an argument: as a key it would want a right to a key of its name.
            let channel = if r.notify == NotifyWaiters::Yes { channel } else { String::new() };
            Input { keys: vec![lock], args: vec![r.lease.to_string(), r.depth_left.to_string(), channel] }
        };
        Ok(self.run_with(&script::RELEASE, input).await?.released()?)
    }

    async fn inspect(&self, name: LockName) -> Result<Reply<Inspected>, BackendError> {
        Ok(self.run(&script::INSPECT, vec![Keys::of(&name).lock], Vec::new()).await?.inspected()?)
    }

    async fn force_release(&self, r: ForceReleaseRequest) -> Result<Reply<ForceReleased>, BackendError> {
        let Keys { lock, channel, .. } = Keys::of(&r.name);
        Ok(self.run(&script::FORCE_RELEASE, vec![lock], vec![r.seen, channel]).await?.forced()?)
    }
}

#[async_trait]
impl<C: Client> lock_core::backend::Subscriptions for RedisBackend<C> {
    fn register_listener(&self, listener: Weak<dyn WakeListener>) -> SubscriberId {
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

impl<C: Client> From<RedisBackend<C>> for Store {
    fn from(redis: RedisBackend<C>) -> Self {
        Self::from(Arc::new(redis))
    }
}

/// At least one: an expiry of 0 would be none.
pub(crate) fn millis(d: Duration) -> String {
    d.as_millis().max(1).to_string()
}

/// A clone shares the connections.
impl<C: Client> Clone for RedisBackend<C> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), warnings: self.warnings.clone() }
    }
}

impl<C: Client> fmt::Debug for RedisBackend<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the configuration: it has the password.
        f.debug_struct("RedisBackend").finish_non_exhaustive()
    }
}
