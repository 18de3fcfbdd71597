//! Detection of dead connections by the time without replies.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

/// The total time with requests in progress and no reply after which a connection counts as dead.
/// TCP alone would need a quarter of an hour to notice that the peer is gone.
const DEAD_AFTER: Duration = Duration::from_secs(2);

/// The number of checks in that time. A dead connection is therefore noticed at most a quarter of that time later.
const LOOKS: u32 = 4;

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
