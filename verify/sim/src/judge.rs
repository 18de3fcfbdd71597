//! Checks of the ends of holds: each has a reason, and is reported once and in time.

use crate::{
    clock::micros,
    link::Link,
    oracle::{Kept, Oracle, SLACK, Taken},
    state::Pause,
};
use lock_core::{
    FencingToken, HoldEnd, LockName, LostReason,
    backend::{LeaseId, Renewed},
    clock::Moment,
};

impl Oracle {
    /// Checks that nobody else is granted a name before the minimum of its last hold is over. There is no minimum for a
    /// lease that the store lost, nor in a quorum whose clocks step. A process may learn late of a grant that preceded
    /// that hold; its token is lower.
    pub(crate) fn is_not_kept(&mut self, now: u64, name: &LockName, (lease, token): (LeaseId, FencingToken)) {
        let Some(Kept { by: (last, highest), until }) = self.names.get(name).and_then(|name| name.kept)
        else {
            return;
        };
        if last == lease || token < highest || now >= until {
            return;
        }
        let robbed = self.leases.get(&last).is_none_or(|last| last.robbed.is_some());
        let timeless = self.quorum.is_some_and(|quorum| quorum.timeless);
        self.must(robbed || timeless, || {
            format!("{name}: granted as {lease} {} µs before the minimum of {last} was over", until - now)
        });
    }

    /// Records that a process reported the end of a hold.
    pub(crate) fn ended(
        &mut self,
        now: u64,
        (name, lease, token): (&LockName, LeaseId, FencingToken),
        how: HoldEnd,
        link: &Link,
        pause: &Pause,
    ) {
        if link.dead {
            return;
        }
        // From now on it must be undone.
        self.touched(now, lease);
        let Some(held) = self.holds.get_mut(&(lease, token)) else {
            return self.must(false, || format!("{name}: {lease} ended and never began"));
        };
        if held.ended.replace(how).is_some() {
            return self.must(false, || format!("{name}: {lease} ended twice"));
        }
        let taken = held.taken.take();
        held.was_until = taken.as_ref().map_or(u64::MAX, |taken| taken.until);
        if let Some(key) = taken.as_ref().and_then(|taken| taken.key) {
            self.history.ended(key, Moment::from_micros(now));
        }
        let HoldEnd::Lost(reason) = how else { return };
        self.lost += 1;
        let robbed = self.leases.get(&lease).is_some_and(|lease| lease.robbed.is_some());
        let why = match reason {
            LostReason::Gone if !robbed => Some("reported as gone, but the store had it".to_owned()),
            LostReason::ShutDown if !link.closed => Some("lost by a shutdown that did not happen".to_owned()),
            LostReason::MaxHold if taken.as_ref().is_some_and(|taken| taken.terms.max_hold.is_none()) => {
                Some("ended by a maximum that it did not have".to_owned())
            }
            LostReason::Expired if self.quorum.is_some() => {
                let renews = taken.as_ref().is_some_and(|taken| taken.terms.every.is_some());
                (self.calm && renews).then(|| "it expired without a fault".to_owned())
            }
            LostReason::Expired => {
                taken.as_ref().and_then(|taken| self.no_reason_to_expire(now, lease, taken, pause))
            }
            _ => None,
        };
        if let Some(why) = why {
            self.must(false, || format!("{name}: false loss of {lease}: {why}"));
        }
    }

    /// Returns why a hold that is reported as expired should not have expired.
    fn no_reason_to_expire(&self, now: u64, id: LeaseId, taken: &Taken, pause: &Pause) -> Option<String> {
        if now + 1 < taken.until {
            return Some(format!("at {now}, before its deadline {}", taken.until));
        }
        // A fixed lease is not renewed.
        let every = micros(taken.terms.every?);
        let lease = self.leases.get(&id)?;
        if lease.robbed.is_some() {
            return None;
        }
        let since = taken.until.saturating_sub(micros(taken.terms.lease - taken.terms.margin));
        // A margin of 1 % covers different clock speeds.
        let since = since.saturating_sub(micros(taken.terms.lease) / 200);
        let operation = micros(taken.terms.operation);
        let stopped = |from: u64, until: u64| pause.from <= until && pause.felt_until() >= from;
        let tries: Vec<_> =
            lease.renewals.iter().filter(|renewal| renewal.sent > since + every / 2).collect();
        for renewal in &tries {
            if let Some((at, Renewed::Renewed)) = renewal.answered
                && at + SLACK < (renewal.sent + operation).min(taken.until)
                && !stopped(renewal.sent, at + SLACK)
            {
                return Some(format!("renewal sent at {} got through at {at}", renewal.sent));
            }
        }
        if stopped(since, now) {
            return None;
        }
        let enough = 2 * operation + 3 * SLACK;
        // A re-entry may have extended the hold while its renewals failed. The next renewal counts, however soon it
        // came.
        let soon = micros(taken.terms.lease) / 100 + SLACK;
        let first = lease.renewals.iter().find(|renewal| renewal.sent > since + soon);
        match (first, tries.last()) {
            (Some(first), _) if first.sent > since + every + soon + 2 * SLACK => {
                Some(format!("first renewed at {}, granted at {since}", first.sent))
            }
            (_, Some(last)) if last.sent + enough < taken.until => {
                Some(format!("no renewal after {}, valid until {}", last.sent, taken.until))
            }
            (None, _) => Some(format!("never renewed from {since} to {now}")),
            _ => None,
        }
    }

    /// Records that an explicit release of a valid guard found that the hold had already ended.
    pub(crate) fn release_found_nothing(&mut self, lease: LeaseId, token: FencingToken) {
        let robbed = self.leases.get(&lease).is_some_and(|lease| lease.robbed.is_some());
        let held = self.holds.get(&(lease, token));
        let lost = held.is_some_and(|held| matches!(held.ended, Some(HoldEnd::Lost(_))));
        let reason = robbed || lost;
        self.must(reason, || format!("{lease}: a release found nothing, although the guard was valid"));
    }

    /// Records that a release reported that the lock was held until then and is now free.
    pub(crate) fn release_claims(&mut self, lease: LeaseId) {
        let freed = self.freed.contains(&lease);
        self.must(freed, || {
            format!("{lease}: a release reports a lock as freed that the store did not free")
        });
    }
}
