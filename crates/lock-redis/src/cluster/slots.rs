//! The slots of a cluster: the slot of each key, and the server of each slot.

use crate::{
    client::{Reply, Server},
    keys::Keys,
};
use lock_core::backend::ProcessId;
use std::ops::RangeInclusive;

/// The number of slots in every cluster.
pub(crate) const SLOTS: u16 = 16_384;

/// Returns the slot of a key, computed from its hash tag if it has one.
pub(crate) fn slot_of(key: &str) -> u16 {
    crc16(tag(key).as_bytes()) % SLOTS
}

/// Returns the part of a key that determines its slot: between its first `{` and the next `}`, unless that is empty.
fn tag(key: &str) -> &str {
    match key.split_once('{').and_then(|(_, rest)| rest.split_once('}')) {
        Some((tag, _)) if !tag.is_empty() => tag,
        _ => key,
    }
}

/// Computes CRC-16/XMODEM bit by bit, since keys are short.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc: u16, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => (crc << 1) ^ 0x1021,
        })
    })
}

/// The servers of all slots, as one node sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View(Vec<(RangeInclusive<u16>, Server)>);

impl View {
    /// Reads the reply to `CLUSTER SLOTS` from the node `asked`. If a node omits its own address,
    /// `asked` is used.
    pub(crate) fn read(reply: &Reply, asked: &Server) -> Option<Self> {
        let Reply::List(ranges) = reply else { return None };
        let mut view = ranges.iter().map(|range| Self::range(range, asked)).collect::<Option<Vec<_>>>()?;
        view.sort_by_key(|(slots, _)| *slots.start());
        Some(Self(view))
    }

    /// Reads one entry: first slot, last slot, master, replicas.
    fn range(range: &Reply, asked: &Server) -> Option<(RangeInclusive<u16>, Server)> {
        let Reply::List(parts) = range else { return None };
        let [first, last, Reply::List(master), ..] = &parts[..] else { return None };
        let slot = |number: &Reply| u16::try_from(number.integer()?).ok().filter(|slot| *slot < SLOTS);
        let [host, port, ..] = &master[..] else { return None };
        let port = u16::try_from(port.integer()?).ok()?;
        Some((slot(first)?..=slot(last)?, named(host.text().unwrap_or_default(), port, asked)))
    }

    pub(crate) fn ranges(&self) -> impl Iterator<Item = (RangeInclusive<u16>, &Server)> {
        self.0.iter().map(|(slots, server)| (slots.clone(), server))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the masters, each once.
    pub(crate) fn servers(&self) -> impl Iterator<Item = &Server> {
        let mut servers: Vec<_> = self.ranges().map(|(_, server)| server).collect();
        servers.sort();
        servers.dedup();
        servers.into_iter()
    }

    /// Returns keys that no lock uses, in a slot of this server.
    pub(crate) fn reserved_name(&self, server: &Server) -> Keys {
        loop {
            let keys = Keys::reserved(&format!("check:{}", ProcessId::random()));
            let slot = slot_of(&keys.lock);
            if self.ranges().any(|(slots, owner)| owner == server && slots.contains(&slot)) {
                return keys;
            }
        }
    }
}

/// Returns a server as named by the cluster node `by`. Without a host, or with `?` as the host, the server is on that
/// node's host.
fn named(host: &str, port: u16, by: &Server) -> Server {
    match (host, by) {
        ("" | "?", Server::Tcp { host, .. }) => Server::Tcp { host: host.clone(), port },
        _ => Server::Tcp { host: host.to_owned(), port },
    }
}

/// A reply from a node that does not serve a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Redirection {
    /// The slot belongs to another node.
    Moved { slot: u16, host: String, port: u16 },
    /// The slot is being moved, and this node no longer has the key.
    Ask { host: String, port: u16 },
    /// The keys of the request are currently on two nodes.
    TryAgain,
}

impl Redirection {
    /// Parses a server's error. Returns `None` if it is not a redirection.
    pub(crate) fn read(error: &str) -> Option<Self> {
        let mut words = error.split_whitespace();
        let kind = words.next()?;
        if kind == "TRYAGAIN" {
            return Some(Self::TryAgain);
        }
        let slot = words.next()?.parse().ok().filter(|slot| *slot < SLOTS)?;
        let (host, port) = words.next()?.rsplit_once(':')?;
        let (host, port) = (host.to_owned(), port.parse().ok()?);
        match kind {
            "MOVED" => Some(Self::Moved { slot, host, port }),
            "ASK" => Some(Self::Ask { host, port }),
            _ => None,
        }
    }

    /// Returns the server named by the redirection. `by` is the server that replied.
    pub(crate) fn server(&self, by: &Server) -> Option<Server> {
        match self {
            Self::Moved { host, port, .. } | Self::Ask { host, port } => Some(named(host, *port, by)),
            Self::TryAgain => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(host: &str, port: u16) -> Server {
        Server::Tcp { host: host.to_owned(), port }
    }

    fn text(text: &'static str) -> Reply {
        Reply::Bytes(text.into())
    }

    #[test]
    fn slots_are_those_of_redis() {
        // The expected values come from `CLUSTER KEYSLOT`.
        for (key, slot) in [
            ("123456789", 12_739),
            ("foo", 12_182),
            ("stock:42", slot_of("redisson_lock_token:{stock:42}")),
            ("{user1000}.following", slot_of("{user1000}.followers")),
            ("foo{}{bar}", slot_of("foo{}{bar}")),
            ("foo{{bar}}zap", slot_of("{bar")),
            ("foo{bar}{zap}", slot_of("bar")),
        ] {
            assert_eq!(slot_of(key), slot, "{key}");
        }
        assert_ne!(slot_of("foo{}{bar}"), slot_of("bar"), "an empty tag does not count");
    }

    #[test]
    fn view_has_the_masters() {
        let node = |host: Reply, port| Reply::List(vec![host, Reply::Integer(port), text("id")]);
        let range = |first, last, node, replica| {
            Reply::List(vec![Reply::Integer(first), Reply::Integer(last), node, replica])
        };
        let replica = || node(text("10.0.0.9"), 1);
        let reply = Reply::List(vec![
            range(8_192, 16_383, node(text("10.0.0.2"), 7_001), replica()),
            range(0, 8_190, node(text("10.0.0.1"), 7_000), replica()),
            range(8_191, 8_191, node(Reply::Nil, 7_002), replica()),
        ]);
        let view = View::read(&reply, &server("asked", 1)).expect("a view");
        let ranges: Vec<_> = view.ranges().map(|(slots, server)| (slots, server.clone())).collect();
        assert_eq!(
            ranges,
            [
                (0..=8_190, server("10.0.0.1", 7_000)),
                (8_191..=8_191, server("asked", 7_002)),
                (8_192..=16_383, server("10.0.0.2", 7_001)),
            ]
        );
        assert_eq!(View::read(&Reply::Nil, &server("asked", 1)), None);
    }

    #[test]
    fn redirections_name_servers() {
        let by = server("here", 1);
        let moved = Redirection::read("MOVED 3999 127.0.0.1:6381").expect("it is one");
        assert_eq!(moved, Redirection::Moved { slot: 3_999, host: "127.0.0.1".into(), port: 6_381 });
        assert_eq!(moved.server(&by), Some(server("127.0.0.1", 6_381)));
        let ask = Redirection::read("ASK 3999 ::1:6381").expect("it is one");
        assert_eq!(ask.server(&by), Some(server("::1", 6_381)));
        let unnamed = Redirection::read("MOVED 3999 :6381").expect("it is one");
        assert_eq!(unnamed.server(&by), Some(server("here", 6_381)));
        assert_eq!(Redirection::read("TRYAGAIN Multiple keys"), Some(Redirection::TryAgain));
        for other in ["", "MOVED", "MOVED 99999 a:1", "ASK 1 a", "ERR no", "CLUSTERDOWN The cluster is down"]
        {
            assert_eq!(Redirection::read(other), None, "{other}");
        }
    }
}
