//! The actions of a client that holds a lock: it reads and writes, re-enters, waits for the loss, and releases.

use crate::{
    client::Client, clock::micros, gate::Fickle, plan::Terms, resource::Write, state::Happening, trace::Who,
};
use lock_core::{Hold, LockError, LockErrorKind, LockGuard, ReleaseOutcome};
use std::time::Duration;
use tokio::time::{sleep, timeout};

impl Client {
    pub(crate) async fn hold(&mut self, guard: LockGuard, terms: Terms) {
        self.take(&guard, terms);
        let hold = guard.hold();
        let longest = self.world.with(|state| state.plan.hold);
        let until = self.now() + micros(self.millis(2 * longest));
        let to_the_end = self.dice.chance(0.05);
        let stubborn = self.dice.chance(0.1);
        let mut inner = Vec::new();
        while self.now() < until && (stubborn || hold.is_held()) && !self.world.with(|s| s.closing) {
            // Without a pause, a client that is refused everything would try again in a tight loop.
            sleep(Duration::from_millis(1)).await;
            match self.dice.below(4) {
                0 => self.read_and_write(&hold).await,
                1 if inner.len() < 3 => inner.extend(self.reenter(&guard).await),
                _ => {
                    let step = self.millis(longest / 4);
                    let _ = timeout(step, hold.ended()).await;
                }
            }
        }
        if to_the_end && terms.every.is_none() {
            let _ = timeout(Duration::from_secs(30), hold.ended()).await;
        }
        for guard in inner {
            self.let_go(guard, terms).await;
        }
        self.let_go(guard, terms).await;
        if !hold.is_held() && self.dice.chance(0.2) {
            // A late writer that has not noticed the loss.
            self.read_and_write(&hold).await;
        }
    }

    fn now(&self) -> u64 {
        self.world.with(|state| state.now)
    }

    async fn reenter(&mut self, guard: &LockGuard) -> Option<LockGuard> {
        let (polls, patience) = (1 + self.dice.below(4), self.millis(500));
        self.note("re-enters", (guard.fencing_token().get(), 0));
        let inner = match self.dice.chance(0.5) {
            true => Fickle::new(polls, guard.reenter()).await,
            false => timeout(patience, guard.reenter()).await.ok(),
        };
        let inner = inner?.ok()?;
        let same = inner.fencing_token() == guard.fencing_token();
        self.world.with(|state| {
            state.oracle.must(same, || "a re-entry has another token".to_owned());
            state.count("re-entry");
            state.look();
        });
        Some(inner)
    }

    /// Reads and writes. The write may come late: after a pause of this process, or after the loss of its lock.
    async fn read_and_write(&mut self, hold: &Hold) {
        let (lease, token, name) = (hold.lease_id(), hold.fencing_token(), hold.name().clone());
        let link = self.link;
        let Some(value) = self.world.with(|state| state.read(link, &name, lease, token)) else { return };
        let think = self.millis(20);
        sleep(think).await;
        let way = if self.dice.chance(0.02) { 3_000 } else { 20 };
        let way = self.dice.below(way);
        self.world.with(|state| {
            let write = Write { link, name, lease, token, value: value + 1 };
            state.after(way, Happening::Write(write));
        });
        // The next read by this holder must see the write.
        sleep(Duration::from_millis(way + 1)).await;
    }

    async fn let_go(&mut self, guard: LockGuard, terms: Terms) {
        let hold = guard.hold();
        let polls = 1 + self.dice.below(3);
        let began = self.note("lets go", (hold.fencing_token().get(), hold.is_held().into()));
        match self.dice.below(4) {
            0 => drop(guard),
            1 => {
                if let Some(answer) = Fickle::new(polls, guard.release()).await {
                    self.released(&hold, answer);
                }
            }
            _ => {
                let answer = guard.release().await;
                self.in_time("a release", began, micros(terms.operation) * 2 + micros(terms.lease) / 100);
                self.released(&hold, answer);
            }
        }
    }

    fn released(&self, hold: &Hold, answer: Result<ReleaseOutcome, LockError>) {
        let (lease, token) = (hold.lease_id(), hold.fencing_token());
        self.world.with(|state| {
            let code = match &answer {
                Ok(outcome) => outcome.was_held().into(),
                Err(_) => 2,
            };
            state.note(Who::Link(self.link), "released", (token.get(), code));
            if matches!(answer, Ok(ReleaseOutcome::StillHeld { depth: 0 })) {
                state.count("kept for its minimum");
            }
            match answer {
                Ok(outcome) if !outcome.was_held() => state.oracle.release_found_nothing(lease, token),
                Ok(ReleaseOutcome::Released) => state.oracle.release_claims(lease),
                Ok(_) => {}
                Err(error) => {
                    let unconfirmed = error.kind() == LockErrorKind::Unconfirmed;
                    state.oracle.must(unconfirmed, || format!("a release failed as {error:?}"));
                }
            }
        });
    }
}
