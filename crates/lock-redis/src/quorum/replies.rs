//! Parsing of the script replies of a node.

use crate::{
    error::{RequestError, refused_by_script, server_error, unexpected_reply},
    script_reply::ScriptReply,
};
use lock_core::{
    backend::Reply,
    quorum::{Extended, Healed, NodeReply, Vote},
};
use std::time::Duration;

/// Number of parts in the reply to one extension.
const PER_ITEM: usize = 2;

impl ScriptReply {
    pub(crate) fn vote(self) -> Result<NodeReply<Vote>, RequestError> {
        self.of_node(|| match (self.word(), self.len()) {
            ("granted", 1) => Ok(Vote::Granted),
            ("busy", 4) => Ok(Vote::Busy {
                remaining: self.remaining(1)?,
                counter: self.number(2)?,
                holder: self.text(3)?.to_owned(),
            }),
            ("stale", 2) => Ok(Vote::Stale { counter: self.number(1)? }),
            ("clock", 1) => Ok(Vote::ClockOff),
            ("quarantined", 1) => Ok(Vote::Quarantined),
            ("late", 1) => Ok(Vote::Late),
            _ => Err(unexpected_reply(self.what)),
        })
    }

    pub(crate) fn healed(self) -> Result<NodeReply<Healed>, RequestError> {
        self.of_node(|| match (self.word(), self.len()) {
            ("set", 1) => Ok(Healed::Set),
            ("busy", 1) => Ok(Healed::Busy),
            ("late", 1) => Ok(Healed::Late),
            _ => Err(unexpected_reply(self.what)),
        })
    }

    /// Returns the replies to this many extensions, in order.
    pub(crate) fn extended(
        self,
        items: usize,
    ) -> Result<Vec<Result<NodeReply<Extended>, RequestError>>, RequestError> {
        if self.word() != "extended" || self.len() != 1 + PER_ITEM * items {
            return Err(self.unexpected());
        }
        let answer = |item: usize| {
            let at = 1 + PER_ITEM * item;
            self.of_node(|| match self.text(at)? {
                "extended" => Ok(Extended::Extended),
                "gone" => Ok(Extended::Gone),
                "late" => Ok(Extended::Late),
                "refused" => Err(refused_by_script(self.what, self.text(at + 1)?)),
                "error" => Err(server_error(self.what, self.text(at + 1)?)),
                _ => Err(unexpected_reply(self.what)),
            })
        };
        Ok((0..items).map(answer).collect())
    }

    /// Adds the node's time and its age, which is the first part of the reply.
    fn of_node<T>(
        &self,
        read: impl FnOnce() -> Result<T, RequestError>,
    ) -> Result<NodeReply<T>, RequestError> {
        let Reply { now, outcome: (age, outcome), .. } = self.outcome(|| Ok((self.number(0)?, read()?)))?;
        Ok(NodeReply { now, age: Duration::from_micros(age), outcome })
    }
}
