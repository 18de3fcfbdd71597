//! A connection that is kept up: requests use the current connection, and a new one is dialled when that one ends or
//! must be replaced.

mod accepted_node;
mod dial;
mod outage;
mod stragglers;
mod supervisor;
mod trust;

pub(crate) use accepted_node::AcceptedNode;
pub(crate) use dial::{Admission, Dialer, Purpose, Target};
pub(crate) use outage::Outage;
pub(crate) use stragglers::Stragglers;
pub(crate) use trust::Trust;

use crate::{
    client::{CallError, Client, Command, Connection, PubSub, Reply, Server},
    error::{self, RequestError, Unanswered},
    liveness::Liveness,
    script_reply::ScriptReply,
    secret::Secrets,
};
use lock_core::{backend::BackendError, clock::UtcTime};
use std::{
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};
pub(crate) use supervisor::FailedDials;
use supervisor::Supervisor;
use tokio::{
    sync::{OnceCell, SetOnce, watch},
    task::JoinHandle,
    time::{Instant, timeout},
};

/// The time for which a request waits for a connection that is being dialled.
pub(crate) const GRACE: Duration = Duration::from_millis(300);

/// The time after which a request fails if it gets no reply while others do. This backs up the
/// locks' operation timeouts.
pub(crate) const NO_ANSWER_AFTER: Duration = Duration::from_secs(30);

/// A connection that is dialled again when it ends. Requests fail while there is none; they are never sent twice.
///
/// Dropping it ends the dialling task.
pub(crate) struct ManagedConnection<C: Client> {
    current: watch::Receiver<Current<C>>,
    /// The reason why there is no current connection.
    outage: Arc<Outage>,
    supervisor: JoinHandle<()>,
}

/// The current connection, if there is one.
pub(crate) type Current<C> = Option<Arc<Dialled<<C as Client>::Connection>>>;

/// One connection, from its dial to its end.
pub(crate) struct Dialled<T> {
    connection: T,
    liveness: Liveness,
    pub(crate) trust: Arc<Trust>,
    /// The reason for the end, set once it has ended.
    end: Arc<SetOnce<String>>,
    /// Set when this connection must be replaced although it is still open.
    replaced: SetOnce<ReplaceReason>,
    secrets: Secrets,
    pub(crate) server: Server,
    /// Set once the server is accepted as a node of a quorum.
    pub(crate) accepted: OnceCell<AcceptedNode>,
}

/// The way a command is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    Plain,
    /// `ASKING` precedes it: another node said that this node serves the slot, although it does not own the slot yet.
    Asking,
    /// `WAIT` follows it, for this many replicas within this time.
    Acknowledged {
        replicas: u32,
        within: Duration,
    },
}

/// The reply to a command.
pub(crate) struct Delivered {
    pub(crate) reply: Reply,
    /// `true` if the required number of replicas acknowledged it.
    pub(crate) is_acknowledged: bool,
}

/// The reason why an open connection must be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplaceReason {
    /// The server has become a replica.
    ReadOnly,
    /// The sentinels name another master.
    NotMaster,
    /// A subscription failed, and later replies might be attributed to the wrong request.
    SubscriptionFailed,
}

impl<C: Client> ManagedConnection<C> {
    /// Dials a connection. Everything that it needs runs on the current runtime.
    pub(crate) async fn open(dialer: Arc<Dialer<C>>, purpose: Purpose) -> Result<Self, BackendError> {
        let first = dialer.dial(&purpose).await?;
        Ok(Self::run(dialer, purpose, Some(Arc::new(first))))
    }

    /// Starts without a connection, and dials until there is one.
    pub(crate) fn begin(dialer: Arc<Dialer<C>>, purpose: Purpose) -> Self {
        Self::run(dialer, purpose, None)
    }

    fn run(dialer: Arc<Dialer<C>>, purpose: Purpose, first: Current<C>) -> Self {
        let (sender, current) = watch::channel(first.clone());
        let outage = Arc::new(Outage::new());
        let supervisor = Supervisor { dialer, purpose, current: sender, outage: outage.clone() };
        Self { current, outage, supervisor: tokio::spawn(supervisor.run(first)) }
    }

    /// Sends one command at most once. If there is no connection, the call fails and the command is not sent.
    pub(crate) async fn call(&self, what: &str, command: Command) -> Result<Reply, RequestError> {
        let dialled = self.connected(what).await?;
        answered(what, pin!(dialled.call(command))).await
    }

    /// Subscribes and unsubscribes, and returns once the server has acknowledged both.
    pub(crate) async fn subscribe(
        &self,
        kind: PubSub,
        subscribe: Vec<String>,
        unsubscribe: Vec<String>,
    ) -> Result<(), RequestError> {
        let dialled = self.connected("subscribe").await?;
        let request = async {
            let adds = async {
                if subscribe.is_empty() {
                    Ok(())
                } else {
                    dialled.connection.subscribe(kind, subscribe).await
                }
            };
            let removes = async {
                if unsubscribe.is_empty() {
                    Ok(())
                } else {
                    dialled.connection.unsubscribe(kind, unsubscribe).await
                }
            };
            let (added, removed) = tokio::join!(adds, removes);
            added.and(removed)
        };
        let request = pin!(request);
        answered("subscribe", pin!(dialled.answer(request))).await
    }

    /// Pings the server.
    pub(crate) async fn ping(&self, what: &str) -> Result<(), RequestError> {
        self.call(what, Command::ping()).await.map(drop)
    }

    /// Replaces the current connection, if there is one.
    pub(crate) fn replace(&self, reason: ReplaceReason) {
        if let Some(dialled) = &*self.current.borrow() {
            let _ = dialled.replaced.set(reason);
        }
    }

    /// Replaces the current connection if it leads to another server.
    pub(crate) fn follow(&self, master: &Server) {
        if let Some(dialled) = self.standing().filter(|dialled| dialled.server != *master) {
            let _ = dialled.replaced.set(ReplaceReason::NotMaster);
        }
    }

    /// Returns the server of the current connection.
    pub(crate) fn server(&self) -> Option<Server> {
        self.current.borrow().as_ref().map(|dialled| dialled.server.clone())
    }

    pub(crate) fn is_up(&self) -> bool {
        self.current.borrow().is_some()
    }

    /// Returns a receiver that is notified whenever the connection ends or is replaced by a new one.
    pub(crate) fn changes(&self) -> watch::Receiver<Current<C>> {
        self.current.clone()
    }

    /// Returns the current connection.
    pub(crate) fn standing(&self) -> Option<Arc<Dialled<C::Connection>>> {
        self.current.borrow().clone()
    }

    /// Returns the error for a request without a connection, with the reason.
    pub(crate) fn not_connected(&self, what: &str) -> RequestError {
        error::not_connected(what, &self.outage)
    }

    /// Returns the current connection, or waits a moment for the next one.
    pub(crate) async fn connected(&self, what: &str) -> Result<Arc<Dialled<C::Connection>>, RequestError> {
        let gone = |_| error::runtime_ended(what);
        self.current.has_changed().map_err(gone)?;
        match self.standing() {
            Some(dialled) => Ok(dialled),
            // Boxed: this is rare, and would increase the size of every request.
            None => Box::pin(self.connected_soon(what)).await,
        }
    }

    async fn connected_soon(&self, what: &str) -> Result<Arc<Dialled<C::Connection>>, RequestError> {
        let mut current = self.current.clone();
        let next = timeout(GRACE, current.wait_for(Option::is_some)).await;
        let next = next.map_err(|_| self.not_connected(what))?.map_err(|_| error::runtime_ended(what))?;
        next.clone().ok_or_else(|| self.not_connected(what))
    }
}

impl<C: Client> Drop for ManagedConnection<C> {
    fn drop(&mut self) {
        self.supervisor.abort();
    }
}

impl<T: Connection> Dialled<T> {
    /// Sends one command at the first poll. The wait for the reply has no time limit, but ends with the connection.
    pub(crate) async fn call(&self, command: Command) -> Result<Reply, Unanswered> {
        self.answer(pin!(self.connection.call(command))).await
    }

    /// Sends one command together with the commands that must precede or follow it.
    pub(crate) async fn deliver(
        &self,
        delivery: Delivery,
        command: Command,
    ) -> Result<Delivered, Unanswered> {
        let (reply, is_acknowledged) = match delivery {
            Delivery::Plain => (self.call(command).await?, true),
            Delivery::Asking => {
                let replies = Box::pin(self.pipeline(vec![Command::asking(), command])).await?;
                (replies.into_iter().next_back().ok_or(Unanswered::ConnectionLost)?, true)
            }
            Delivery::Acknowledged { replicas, within } => {
                let commands = vec![command, Command::wait(replicas, within)];
                let replies = Box::pin(self.pipeline(commands)).await?;
                let acknowledged = replies.get(1).and_then(Reply::integer).unwrap_or_default();
                let reply = replies.into_iter().next().ok_or(Unanswered::ConnectionLost)?;
                (reply, acknowledged >= i64::from(replicas))
            }
        };
        match reply {
            Reply::Error(text) => {
                Err(Unanswered::Failed(self.secrets.hide_in_call(CallError::Refused(text))))
            }
            reply => Ok(Delivered { reply, is_acknowledged }),
        }
    }

    /// Decodes the reply of a script that was sent at this time.
    pub(crate) fn read(
        &self,
        what: &'static str,
        sent: Instant,
        reply: Reply,
    ) -> Result<ScriptReply, RequestError> {
        ScriptReply::read(what, reply, &self.trust, sent)
    }

    /// Reads the server's clock. Without the permission, the first reply of a script is its first reading.
    async fn read_clock(&self) {
        let sent = Instant::now();
        let Ok(Reply::List(parts)) = self.call(Command::time()).await else { return };
        let [seconds, micros] = [0, 1].map(|at| parts.get(at)?.integer()?.try_into().ok());
        if let (Some(seconds), Some(micros)) = (seconds, micros) {
            let now = Duration::from_secs(seconds) + Duration::from_micros(micros);
            self.trust.believes(sent, UtcTime::from_micros(0) + now);
        }
    }

    /// Sends commands with no other command between them.
    async fn pipeline(&self, commands: Vec<Command>) -> Result<Vec<Reply>, Unanswered> {
        self.answer(pin!(self.connection.pipeline(commands))).await
    }

    /// Waits for the reply to one request, or for the end of the connection.
    async fn answer<R, F>(&self, request: Pin<&mut F>) -> Result<R, Unanswered>
    where
        F: Future<Output = Result<R, CallError>>,
    {
        let sent = self.liveness.sent();
        let answer = tokio::select! {
            biased;
            answer = request => answer,
            _ = self.end.wait() => return Err(Unanswered::ConnectionLost),
        };
        match &answer {
            Err(CallError::NotSent(_)) => {}
            // This may be the reply to another request.
            _ if self.trust.is_lost() => return Err(Unanswered::ConnectionLost),
            Err(CallError::Unreadable(_)) => self.trust.lose("unreadable reply"),
            // Also ends the other pending requests immediately.
            Err(CallError::Lost(reason)) => drop(self.end.set(reason.clone())),
            Ok(_) | Err(CallError::Refused(_)) => sent.heard(),
        }
        answer.map_err(|error| Unanswered::Failed(self.secrets.hide_in_call(error)))
    }
}

/// Limits the time of a request that has no other time limit.
///
/// The request is borrowed, because a future that takes another future by value stores it twice.
pub(crate) async fn answered<R, F>(what: &str, request: Pin<&mut F>) -> Result<R, RequestError>
where
    F: Future<Output = Result<R, Unanswered>>,
{
    let answer = timeout(NO_ANSWER_AFTER, request).await.unwrap_or(Err(Unanswered::TimedOut));
    answer.map_err(|error| error.during(what))
}
