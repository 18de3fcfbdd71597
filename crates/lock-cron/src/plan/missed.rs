//! Which of the instants that have come are run, and which stay missed.

use crate::{
    options::{Misfire, Terms},
    schedule::{Schedule, UtcTime},
};
use lock_core::backend::ledger::CatchUp;
use std::{collections::VecDeque, time::Duration};

/// By how much a run may be late and still be on time: the leader looks at the clock every second.
pub(super) const ON_TIME: Duration = Duration::from_secs(1);

/// The longest grace, unless the job has its own.
const LONGEST_GRACE: Duration = Duration::from_secs(600);

/// How many missed instants are counted.
const MOST_COUNTED: usize = 10_000;

/// How many are run in all after an outage.
const MOST_RUN: usize = 1_000;

pub(super) struct Sifted {
    /// In ascending order.
    pub(super) run: Vec<(UtcTime, CatchUp)>,
    pub(super) skipped: u32,
    /// Nothing up to here has to be looked at again.
    pub(super) up_to: UtcTime,
}

/// Looks at the instants after `cursor` up to `now`.
pub(super) fn sift(schedule: &Schedule, terms: &Terms, cursor: UtcTime, now: UtcTime) -> Sifted {
    let most = match terms.misfire {
        Misfire::Skip => 0,
        Misfire::FireOnce => 1,
        Misfire::FireAll { max } => usize::try_from(max).unwrap_or(usize::MAX).min(MOST_RUN),
    };
    // What is too old for any grace is counted, and not kept.
    let oldest = now.saturating_sub(terms.grace.unwrap_or(LONGEST_GRACE).max(ON_TIME));
    let mut counted = schedule.after(cursor).take_while(|at| *at < oldest).take(MOST_COUNTED).count();
    let (mut run, mut missed) = (Vec::new(), VecDeque::new());
    let recent = schedule.after(cursor.max(oldest.saturating_sub(Duration::from_millis(1))));
    for at in recent.take_while(|at| *at <= now) {
        if now.since(at) <= ON_TIME {
            run.push((at, CatchUp::No));
            continue;
        }
        missed.push_back(at);
        if missed.len() > most {
            missed.pop_front();
            counted += 1;
        }
    }
    let before = missed.len();
    missed.retain(|at| now.since(*at) <= grace(schedule, terms, *at));
    counted += before - missed.len();
    let caught_up = missed.into_iter().map(|at| (at, CatchUp::Yes));
    run = caught_up.chain(run).collect();
    Sifted { run, skipped: u32::try_from(counted).unwrap_or(u32::MAX), up_to: now }
}

/// By default a run that comes nearer to its successor than to its own time is not worth it.
fn grace(schedule: &Schedule, terms: &Terms, at: UtcTime) -> Duration {
    terms.grace.unwrap_or_else(|| {
        let half = schedule.next_after(at).map_or(LONGEST_GRACE, |next| next.since(at) / 2);
        half.min(LONGEST_GRACE)
    })
}
