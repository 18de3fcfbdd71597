//! Checks of holders: an end has a reason and is reported once and in time, the store agrees with what holders believe,
//! and no abandoned lease is left two operation timeouts after the store answers again.

use crate::{
    clock::micros,
    net::Link,
    oracle::{Kept, Oracle, SLACK, Taken},
    state::Pause,
    store::Stores,
};
use lock_core::{
    FencingToken, HoldEnd, LockName, LostReason,
    backend::{LeaseId, ReleaseRequest, Renewed},
    clock::{Clock, Moment},
};

/// The interval at which the driver checks the clock without a timer. A suspended process notices its loss late by at
/// most this.
const WOKEN: u64 = 1_100_000;
/// The interval, in µs, at which a waiter asks again and finds that a late attempt of its own was granted.
const POLL: u64 = 5_300_000;
/// The time, in µs, for which a quorum waits for an answer plus its pause before it repeats a release.
const STRAGGLERS: u64 = 4_100_000;

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

    /// Checks all current beliefs. Returns the time of the next check.
    pub(crate) fn look(&mut self, now: u64, stores: &Stores, links: &[Link], pauses: &[Pause]) -> Vec<u64> {
        let mut again = Vec::new();
        for id in self.open.iter().copied().collect::<Vec<_>>() {
            let Some(held) = self.holds.get_mut(&id) else { continue };
            let (link, told) = (&links[held.link], held.ended.is_some());
            let Some(taken) = held.taken.as_mut().filter(|_| !link.dead && !told) else {
                self.open.remove(&id);
                continue;
            };
            let left = taken.hold.remaining();
            let until = link.clock.when(link.clock.now() + left);
            if !left.is_zero() && until > taken.until + 1 {
                taken.until = until;
                again.push(until + SLACK + 1_000);
                self.extended(id, now, until, stores);
            } else if left.is_zero() {
                let pause = &pauses[link.process];
                let woken = if pause.until > 0 { pause.until + WOKEN } else { 0 };
                let told_by = (taken.until + SLACK).max(woken);
                self.must(now <= told_by, || {
                    format!("{id:?} had ended, but this was not reported by {told_by}")
                });
            }
        }
        again
    }

    /// Checks a holder that believes in its hold for longer than before.
    fn extended(&mut self, id: (LeaseId, FencingToken), now: u64, until: u64, stores: &Stores) {
        let (Some(lease), Some(held)) = (self.leases.get(&id.0), self.holds.get(&id)) else { return };
        let Some(taken) = &held.taken else { return };
        if let Some(robbed) = lease.robbed {
            // It may keep its deadline from before the loss, but must not get another one. A re-entry may have had the
            // longest of all leases.
            let sent = until.saturating_sub(self.longest);
            let late = sent > robbed + SLACK + self.longest / 100;
            let revived = lease.revived;
            return self
                .must(revived || !late, || format!("{id:?} was gone at {robbed}, but renewed at {sent}"));
        }
        if let Some(key) = taken.key {
            self.history.extended(key, Moment::from_micros(until));
        }
        let stored = stores.stored(now, &held.name);
        let id_there = stores[0].data.stored_id(id.0);
        let safe = stored.is_some_and(|stored| stored.lease == id_there && stored.until >= until);
        let timeless = self.quorum.is_some_and(|quorum| quorum.timeless);
        self.must(safe || timeless, || format!("{id:?}: held until {until}, but the store has {stored:?}"));
    }

    pub(crate) fn release_sent(&mut self, now: u64, r: &ReleaseRequest) {
        if let Some(lease) = self.leases.get_mut(&r.lease) {
            lease.touched = now;
            lease.retired |= r.depth_left == 0;
        }
    }

    /// Checks that every stored lease has a holder, or a process that is undoing it.
    pub(crate) fn no_orphans(&mut self, now: u64, stores: &Stores, links: &[Link], pauses: &[Pause]) {
        for (node, id) in stores.left(now, self.names.keys()).into_iter().map(|(node, s)| (node, s.lease)) {
            let Some(lease) = self.leases.get(&id) else { continue };
            // The number of a link is part of the id of its process's life.
            let life = usize::try_from(id.process().as_uuid().as_u64_pair().1).unwrap_or(usize::MAX);
            let is_known = |link: &&Link| !link.dead && !link.closed && !link.copied;
            let Some(link) = links.get(life.saturating_add(node)).filter(is_known) else { continue };
            // Excused by old data, by a clock that stepped back or was unknown to the process, or by a link that is
            // cut.
            let excused = lease.revived || lease.robbed.is_some() || lease.far_stamp || self.stepped_back;
            let pause = &pauses[link.process];
            let ready = stores[node].paused_until.max(stores[node].down_until);
            let since = lease.touched.max(pause.felt_until()).max(link.since).max(ready);
            let answers = if self.quorum.is_some() { STRAGGLERS } else { 0 };
            // A hold with a minimum is released once that is over.
            let minimum = self.minimum + self.minimum / 100;
            let patience =
                2 * self.operation + 5 * SLACK + minimum + answers + if lease.retired { 0 } else { POLL };
            if excused || link.partition.is_some() || now <= since + patience {
                continue;
            }
            let of_it = (id, FencingToken::new(0))..=(id, FencingToken::new(u64::MAX));
            let held = self.holds.range(of_it).any(|(_, held)| held.ended.is_none());
            self.must(held, || format!("an orphan: no process has sent anything about {id} since {since}"));
        }
    }
}
