//! Checks that nothing abandoned is left two operation timeouts after the store answers again.

use crate::{
    link::Link,
    oracle::{Oracle, SLACK},
    state::Pause,
    stores::Stores,
};
use lock_core::{FencingToken, backend::ReleaseRequest};

/// The interval, in µs, at which a waiter asks again and finds that a late attempt of its own was granted.
const POLL: u64 = 5_300_000;
/// The time, in µs, for which a quorum waits for an answer plus its pause before it repeats a release.
const STRAGGLERS: u64 = 4_100_000;

impl Oracle {
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
