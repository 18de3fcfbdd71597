//! Whether anything is heard from the other side: how long requests were under way without any answer.

use crate::sync::lock;
use std::{
    convert::Infallible,
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// A connection on which requests were under way for that long in all, without one answer in between, is taken for
/// dead. TCP itself would need a quarter of an hour to notice that the other side is gone.
const SILENCE: Duration = Duration::from_secs(2);

/// Between two looks at the silence: others may be answered meanwhile.
const SHORTEST_LOOK: Duration = Duration::from_millis(10);

/// The silence of one connection. Time in which nothing was asked does not count.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    state: Mutex<State>,
    dead: watch::Sender<()>,
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

impl Pulse {
    /// A request is sent now.
    pub(crate) fn sent(&self) -> Sent<'_> {
        let mut state = lock(&self.state);
        state.under_way += 1;
        state.since.get_or_insert_with(Instant::now);
        Sent { pulse: self, heard: false }
    }

    /// Changes whenever the connection is taken for dead.
    pub(crate) fn deaths(&self) -> watch::Receiver<()> {
        self.dead.subscribe()
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
        let dead = !heard && silence >= SILENCE;
        state.before = if heard || dead { Duration::ZERO } else { silence };
        state.since = (state.under_way > 0).then_some(now);
        drop(state);
        if dead {
            self.dead.send_replace(());
        }
    }
}

/// A request under way; it ends unheard if it is dropped, as it is when its caller loses patience.
pub(crate) struct Sent<'a> {
    pulse: &'a Pulse,
    heard: bool,
}

impl Sent<'_> {
    /// Never returns, and takes the connection for dead when it is: a request may wait for much longer than that.
    pub(crate) async fn listen(&self) -> Infallible {
        loop {
            let left = SILENCE.saturating_sub(lock(&self.pulse.state).silence(Instant::now()));
            tokio::time::sleep(left.max(SHORTEST_LOOK)).await;
            self.pulse.counted(lock(&self.pulse.state), false);
        }
    }

    /// The other side answered.
    pub(crate) fn heard(mut self) {
        self.heard = true;
    }
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        self.pulse.ended(self.heard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::sleep;

    #[test]
    fn silence_adds_up_over_impatient_requests() {
        let pulse = Pulse::default();
        let deaths = pulse.deaths();
        for _ in 0..3 {
            let sent = pulse.sent();
            sleep(SILENCE / 4);
            drop(sent);
        }
        assert!(!deaths.has_changed().unwrap());
        let sent = pulse.sent();
        sleep(SILENCE / 2);
        drop(sent);
        assert!(deaths.has_changed().unwrap());
    }

    #[test]
    fn idle_time_and_answered_requests_are_no_silence() {
        let pulse = Pulse::default();
        let deaths = pulse.deaths();
        drop(pulse.sent());
        sleep(SILENCE + SILENCE / 10);
        drop(pulse.sent());
        assert!(!deaths.has_changed().unwrap(), "nothing was under way");
        let (first, second) = (pulse.sent(), pulse.sent());
        sleep(SILENCE * 3 / 4);
        first.heard();
        sleep(SILENCE / 2);
        drop(second);
        assert!(!deaths.has_changed().unwrap(), "the first was answered in between");
    }
}
