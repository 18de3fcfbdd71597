//! Whether anything is heard from the other side: how long requests were under way without any answer.

use crate::sync::lock;
use std::{
    sync::{Mutex, MutexGuard},
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// A connection on which requests were under way for that long in all, without one answer in between, is taken for
/// dead. TCP itself would need a quarter of an hour to notice that the other side is gone.
const DEAD_AFTER: Duration = Duration::from_secs(2);

/// Between two looks at the silence: others may be answered meanwhile.
const SHORTEST_LOOK: Duration = Duration::from_millis(10);

/// A request that is not answered for that long fails while others are answered, whatever its caller wants: the backstop
/// behind the operation timeouts of the locks.
const NO_ANSWER_AFTER: Duration = Duration::from_secs(30);

/// The silence of one connection. Time in which nothing was asked does not count.
#[derive(Debug, Default)]
pub(crate) struct Liveness {
    state: Mutex<State>,
    dead: Notify,
}

#[derive(Debug, Default)]
struct State {
    under_way: usize,
    /// Since when something is under way.
    since: Option<Instant>,
    /// The silence before that.
    before: Duration,
}

impl State {
    fn silence(&self, now: Instant) -> Duration {
        self.before + self.since.map_or(Duration::ZERO, |since| now - since)
    }
}

impl Liveness {
    /// A request is sent now.
    pub(crate) fn sent(&self) -> Sent<'_> {
        let now = Instant::now();
        let mut state = lock(&self.state);
        state.under_way += 1;
        state.since.get_or_insert(now);
        Sent { liveness: self, at: now, heard: false }
    }

    /// Returns when the connection was taken for dead since the last call.
    pub(crate) async fn died(&self) {
        self.dead.notified().await;
    }

    fn ended(&self, heard: bool) {
        let mut state = lock(&self.state);
        state.under_way -= 1;
        self.counted(state, heard);
    }

    /// Counts the silence until now, and says so if that was the last sign that was waited for.
    fn counted(&self, mut state: MutexGuard<'_, State>, heard: bool) {
        let now = Instant::now();
        let silence = state.silence(now);
        let dead = !heard && silence >= DEAD_AFTER;
        state.before = if heard || dead { Duration::ZERO } else { silence };
        state.since = (state.under_way > 0).then_some(now);
        drop(state);
        if dead {
            self.dead.notify_one();
        }
    }
}

/// A request under way; it ends unheard if it is dropped, as it is when its caller loses patience.
pub(crate) struct Sent<'a> {
    liveness: &'a Liveness,
    at: Instant,
    heard: bool,
}

impl Sent<'_> {
    /// Takes the connection for dead when it is: a request may wait for much longer than that. Returns when this request
    /// has waited too long.
    pub(crate) async fn waited_too_long(&self) {
        let limit = self.at + NO_ANSWER_AFTER;
        loop {
            let now = Instant::now();
            if now >= limit {
                return;
            }
            let left = DEAD_AFTER.saturating_sub(lock(&self.liveness.state).silence(now));
            tokio::time::sleep_until(limit.min(now + left.max(SHORTEST_LOOK))).await;
            self.liveness.counted(lock(&self.liveness.state), false);
        }
    }

    /// The other side answered.
    pub(crate) fn heard(mut self) {
        self.heard = true;
    }
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        self.liveness.ended(self.heard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;

    /// Returns `true` if the connection was taken for dead since the last call.
    async fn is_dead(liveness: &Liveness) -> bool {
        tokio::time::timeout(Duration::ZERO, liveness.died()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn silence_adds_up_over_impatient_requests() {
        let liveness = Liveness::default();
        for _ in 0..3 {
            let sent = liveness.sent();
            sleep(DEAD_AFTER / 4).await;
            drop(sent);
        }
        assert!(!is_dead(&liveness).await);
        let sent = liveness.sent();
        sleep(DEAD_AFTER / 2).await;
        drop(sent);
        assert!(is_dead(&liveness).await);
    }

    #[tokio::test(start_paused = true)]
    async fn idle_time_and_answered_requests_are_no_silence() {
        let liveness = Liveness::default();
        drop(liveness.sent());
        sleep(DEAD_AFTER + DEAD_AFTER / 10).await;
        drop(liveness.sent());
        assert!(!is_dead(&liveness).await, "nothing was under way");
        let (first, second) = (liveness.sent(), liveness.sent());
        sleep(DEAD_AFTER * 3 / 4).await;
        first.heard();
        sleep(DEAD_AFTER / 2).await;
        drop(second);
        assert!(!is_dead(&liveness).await, "the first was answered in between");
    }

    #[tokio::test(start_paused = true)]
    async fn one_patient_request_notices_the_silence() {
        let liveness = Liveness::default();
        let sent = liveness.sent();
        let begun = Instant::now();
        tokio::select! {
            () = liveness.died() => assert_eq!(begun.elapsed(), DEAD_AFTER),
            () = sent.waited_too_long() => panic!("nobody waits that long for a dead connection"),
        }
    }

    /// Answers come in the order of the requests, so this is a fault of the other side; nobody shall hang on it.
    #[tokio::test(start_paused = true)]
    async fn a_request_alone_without_an_answer_ends() {
        let liveness = Liveness::default();
        let (sent, begun) = (liveness.sent(), Instant::now());
        let others = async {
            loop {
                sleep(DEAD_AFTER / 2).await;
                liveness.sent().heard();
            }
        };
        tokio::select! {
            () = sent.waited_too_long() => assert_eq!(begun.elapsed(), NO_ANSWER_AFTER),
            () = others => {}
        }
        assert!(!is_dead(&liveness).await, "others are answered");
    }
}
