//! One connection, from its dial to its end: requests and their replies, and the silence after which it counts as dead.

use crate::{
    client::{CallError, Command, Connection, PubSub, Reply, Secrets, Server, printable},
    clock::Trust,
    error::{RequestError, Unanswered},
    quorum::AcceptedNode,
    script_reply::ScriptReply,
};
use lock_core::clock::UtcTime;
use std::{
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    runtime::{Handle, Id},
    sync::{OnceCell, SetOnce},
    time::{Instant, timeout},
};

/// The time after which a request fails if it gets no reply while others do. This backs up the
/// locks' operation timeouts.
pub(crate) const NO_ANSWER_AFTER: Duration = Duration::from_secs(30);

/// The total time with requests in progress and no reply after which a connection counts as dead.
/// TCP alone would need a quarter of an hour to notice that the peer is gone.
const DEAD_AFTER: Duration = Duration::from_secs(2);

/// The number of checks in that time. A dead connection is therefore noticed at most a quarter of that time later.
const LOOKS: u32 = 4;

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
    /// The runtime in which it was dialled.
    pub(super) runtime: Id,
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
    /// Requests have been in progress for a while without a reply.
    Unresponsive,
    /// The server has become a replica.
    ReadOnly,
    /// The sentinels name another master.
    NotMaster,
    /// A subscription failed, and later replies might be attributed to the wrong request.
    SubscriptionFailed,
}

impl<T: Connection> Dialled<T> {
    pub(super) fn new(connection: T, end: Arc<SetOnce<String>>, secrets: Secrets, server: Server) -> Self {
        let (liveness, replaced, accepted) = (Liveness::default(), SetOnce::new(), OnceCell::new());
        let trust = Arc::new(Trust::new(end.clone()));
        let runtime = Handle::current().id();
        Self { connection, liveness, trust, end, replaced, secrets, server, runtime, accepted }
    }

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
    pub(super) async fn read_clock(&self) {
        let sent = Instant::now();
        let Ok(Reply::List(parts)) = self.call(Command::time()).await else { return };
        let [seconds, micros] = [0, 1].map(|at| parts.get(at)?.integer()?.try_into().ok());
        if let (Some(seconds), Some(micros)) = (seconds, micros) {
            let now = Duration::from_secs(seconds) + Duration::from_micros(micros);
            self.trust.believes(sent, UtcTime::from_micros(0) + now);
        }
    }

    /// Subscribes and unsubscribes, and returns once the server has acknowledged both.
    pub(super) async fn subscribe(
        &self,
        kind: PubSub,
        subscribe: Vec<String>,
        unsubscribe: Vec<String>,
    ) -> Result<(), Unanswered> {
        let adds = async {
            if subscribe.is_empty() { Ok(()) } else { self.connection.subscribe(kind, subscribe).await }
        };
        let removes = async {
            if unsubscribe.is_empty() { Ok(()) } else { self.connection.unsubscribe(kind, unsubscribe).await }
        };
        let request = async {
            let (added, removed) = tokio::join!(adds, removes);
            added.and(removed)
        };
        self.answer(pin!(request)).await
    }

    /// Requests the replacement of this connection although it is still open.
    pub(super) fn replace(&self, reason: ReplaceReason) {
        let _ = self.replaced.set(reason);
    }

    /// Ends the connection.
    pub(super) fn close(&self, why: &str) {
        let _ = self.end.set(why.to_owned());
    }

    /// Waits for the end of the connection, and returns its reason.
    pub(super) async fn ended(&self) -> String {
        printable(&self.secrets.hide(self.end.wait().await.clone()))
    }

    /// Waits until the connection must be replaced although it is still open, and returns the reason.
    pub(super) async fn outlived(&self) -> ReplaceReason {
        tokio::select! {
            () = self.liveness.died() => ReplaceReason::Unresponsive,
            reason = self.replaced.wait() => *reason,
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
            Err(CallError::Lost(reason)) => self.close(reason),
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

/// A detector of silence on one connection. Time without requests in progress does not count.
#[derive(Debug, Default)]
pub(crate) struct Liveness {
    under_way: AtomicUsize,
    answers: AtomicUsize,
}

impl Liveness {
    /// Records that a request is being sent.
    pub(crate) fn sent(&self) -> Sent<'_> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        Sent(self)
    }

    /// Returns once the connection counts as dead. Time before the first poll does not count.
    pub(crate) async fn died(&self) {
        let (mut answers, mut silent) = (self.answers.load(Ordering::Relaxed), 0);
        while silent < LOOKS {
            let asked = self.under_way.load(Ordering::Relaxed) > 0;
            tokio::time::sleep(DEAD_AFTER / LOOKS).await;
            let before = std::mem::replace(&mut answers, self.answers.load(Ordering::Relaxed));
            silent = match (before == answers, asked) {
                (true, true) => silent + 1,
                (true, false) => silent,
                (false, _) => 0,
            };
        }
    }
}

/// A request in progress. Dropping it, as a caller with a timeout does, ends it without a reply.
pub(crate) struct Sent<'a>(&'a Liveness);

impl Sent<'_> {
    /// Records a reply from the peer.
    pub(crate) fn heard(self) {
        self.0.answers.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{Instant, sleep, timeout};

    async fn lives_for(liveness: &Liveness, time: Duration) {
        assert!(timeout(time, liveness.died()).await.is_err());
    }

    /// Asserts that the silence lasts 2 s, plus at most one interval between checks.
    fn is_noticed_in_time(silence: Duration) {
        assert!((DEAD_AFTER..=DEAD_AFTER + DEAD_AFTER / LOOKS).contains(&silence), "{silence:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn silence_adds_up_over_abandoned_requests() {
        let liveness = Liveness::default();
        let begun = Instant::now();
        let impatient = async {
            loop {
                let sent = liveness.sent();
                sleep(DEAD_AFTER * 3 / 4).await;
                drop(sent);
            }
        };
        tokio::select! {
            () = liveness.died() => is_noticed_in_time(begun.elapsed()),
            () = impatient => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn idle_time_does_not_count_as_silence() {
        let liveness = Liveness::default();
        lives_for(&liveness, 10 * DEAD_AFTER).await;
        let seldom = async {
            loop {
                sleep(DEAD_AFTER).await;
                liveness.sent().heard();
            }
        };
        tokio::select! {
            () = lives_for(&liveness, 10 * DEAD_AFTER) => {}
            () = seldom => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answers_to_other_requests_are_signs_of_life() {
        let liveness = Liveness::default();
        let _unanswered = liveness.sent();
        let others = async {
            loop {
                sleep(DEAD_AFTER * 3 / 4).await;
                liveness.sent().heard();
            }
        };
        tokio::select! {
            () = lives_for(&liveness, 10 * DEAD_AFTER) => {}
            () = others => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_waiting_request_notices_the_silence() {
        let liveness = Liveness::default();
        let request = async {
            sleep(DEAD_AFTER / 3).await;
            let (sent, begun) = (liveness.sent(), Instant::now());
            std::future::pending::<()>().await;
            drop(sent);
            begun
        };
        let begun = Instant::now() + DEAD_AFTER / 3;
        tokio::select! {
            () = liveness.died() => is_noticed_in_time(begun.elapsed()),
            _ = request => {}
        }
    }
}
