//! The Redis keys of a lock. The layout is Redisson's, so Java and Rust can contend for the same
//! lock.

use crate::client::PubSub;
use lock_core::{LockName, backend::ProcessId};
use lock_ledger::GroupName;

/// The keys and the channel of one lock, all in one slot of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Keys {
    /// HASH `{lease id: depth}`, expiring with the lease.
    pub(crate) lock: String,
    /// STRING, the last fencing token granted or reserved.
    pub(crate) counter: String,
    /// The channel on which `0` is published when the lock is released.
    pub(crate) channel: String,
}

/// The key that marks a node of a quorum, one per database.
pub(crate) const NODE_MARKER: &str = "distlock:node";

/// Returns the key of a process's card: a STRING of JSON with an expiry.
pub(crate) fn card(process: ProcessId) -> String {
    format!("distlock:process:{process}")
}

impl Keys {
    pub(crate) fn of(name: &LockName) -> Self {
        Self::under(name.as_str())
    }

    /// Returns the keys of a name that no lock can have, since it begins with the reserved prefix.
    pub(crate) fn reserved(rest: &str) -> Self {
        Self::under(&format!("distlock:{rest}"))
    }

    /// Returns the script argument that indicates whether the channels are sharded.
    pub(crate) fn sharded(pubsub: PubSub) -> &'static str {
        match pubsub {
            PubSub::Plain => "",
            PubSub::Sharded => "1",
        }
    }

    fn under(name: &str) -> Self {
        Self { lock: name.to_owned(), counter: counter_of(name), channel: channel_of(name) }
    }
}

/// The keys of the run ledger that belong to one group. They share a cluster slot with those of [`JobKeys`].
pub(crate) struct GroupKeys {
    /// HASH of the open runs.
    pub(crate) open: String,
    /// HASH of the controls, triggers and backfills, and their revision.
    pub(crate) group: String,
    /// HASH of the live nodes.
    pub(crate) nodes: String,
    /// HASH of the definitions of instances.
    pub(crate) instances: String,
    /// ZSET of the names of the instances, in order.
    pub(crate) names: String,
    /// LIST of the latest changes to instances.
    pub(crate) changes: String,
    /// HASH of the summaries of the jobs.
    pub(crate) summaries: String,
    /// HASH of the payloads of triggers and instances.
    pub(crate) payloads: String,
}

impl GroupKeys {
    pub(crate) fn of(group: &GroupName) -> Self {
        let of = |what| ledger(what, group);
        Self {
            open: of("open"),
            group: of("group"),
            nodes: of("nodes"),
            instances: of("instances"),
            names: of("names"),
            changes: of("changes"),
            summaries: of("summaries"),
            payloads: of("payloads"),
        }
    }
}

/// The keys of the run ledger that belong to one job.
pub(crate) struct JobKeys {
    /// HASH with the watermark.
    pub(crate) job: String,
    /// LIST of the ended attempts.
    pub(crate) history: String,
}

impl JobKeys {
    pub(crate) fn of(group: &GroupName, job: &LockName) -> Self {
        let of = |what| format!("{}:{job}", ledger(what, group));
        Self { job: of("job"), history: of("history") }
    }
}

fn ledger(what: &str, group: &GroupName) -> String {
    wrap(&format!("distlock:ledger:2:{what}"), group.as_str())
}

/// Returns the key of the queue of a pool, whose own key is its name.
pub(crate) fn queue(name: &LockName) -> String {
    wrap("distlock:queue", name.as_str())
}

/// Returns the keys on which the commands for a pool are tried.
pub(crate) fn pool_probe(name: &LockName) -> [String; 2] {
    ["distlock:probe", "distlock:probe2"].map(|prefix| wrap(prefix, name.as_str()))
}

/// Returns the key of a lock's fencing counter.
pub(crate) fn counter(name: &LockName) -> String {
    counter_of(name.as_str())
}

fn counter_of(name: &str) -> String {
    wrap("redisson_lock_token", name)
}

/// Returns the channel on which a lock's releases are published.
pub(crate) fn channel(name: &LockName) -> String {
    channel_of(name.as_str())
}

fn channel_of(name: &str) -> String {
    wrap("redisson_lock__channel", name)
}

/// Returns `prefix:{name}`, or `prefix:name` if the name contains a hash tag itself.
fn wrap(prefix: &str, name: &str) -> String {
    match name.contains('{') {
        true => [prefix, ":", name].concat(),
        false => [prefix, ":{", name, "}"].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_redisson() {
        let keys = Keys::of(&LockName::new("stock:42").expect("valid name"));
        assert_eq!(keys.lock, "stock:42");
        assert_eq!(keys.counter, "redisson_lock_token:{stock:42}");
        assert_eq!(keys.channel, "redisson_lock__channel:{stock:42}");
    }

    #[test]
    fn all_keys_of_a_group_share_its_tag() {
        let group = GroupName::new("billing").expect("valid name");
        let job = JobKeys::of(&group, &LockName::new("a{b}").expect("valid name"));
        assert_eq!(job.job, "distlock:ledger:2:job:{billing}:a{b}");
        assert_eq!(job.history, "distlock:ledger:2:history:{billing}:a{b}");
        let GroupKeys { open, group, nodes, instances, names, changes, summaries, payloads } =
            GroupKeys::of(&group);
        assert_eq!(instances, "distlock:ledger:2:instances:{billing}");
        assert_eq!(names, "distlock:ledger:2:names:{billing}");
        assert_eq!(changes, "distlock:ledger:2:changes:{billing}");
        assert_eq!(nodes, "distlock:ledger:2:nodes:{billing}");
        assert_eq!(summaries, "distlock:ledger:2:summaries:{billing}");
        assert_eq!(payloads, "distlock:ledger:2:payloads:{billing}");
        assert_eq!(
            (&*open, &*group),
            ("distlock:ledger:2:open:{billing}", "distlock:ledger:2:group:{billing}")
        );
    }

    #[test]
    fn hash_tag_of_the_name_is_kept() {
        let keys = Keys::of(&LockName::new("stock:{eu}:42").expect("valid name"));
        assert_eq!(keys.counter, "redisson_lock_token:stock:{eu}:42");
        assert_eq!(keys.channel, "redisson_lock__channel:stock:{eu}:42");
    }
}
