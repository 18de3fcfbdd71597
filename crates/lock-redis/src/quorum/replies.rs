//! Parsing of the script replies of a node.

use crate::{
    error::{RequestError, refused_by_script, server_error, unexpected_reply},
    script_reply::ScriptReply,
};
use lock_core::quorum::{Extended, Healed, NodeReply, Vote};
use std::time::Duration;

/// Number of parts in the reply to one extension.
const PER_ITEM: usize = 2;

impl ScriptReply {
    pub(crate) fn vote(self) -> Result<NodeReply<Vote>, RequestError> {
        let outcome = match self.word() {
            "granted" => Vote::Granted,
            "busy" => Vote::Busy {
                remaining: self.remaining(1)?,
                counter: self.number(2)?,
                holder: self.text(3)?.to_owned(),
            },
            "stale" => Vote::Stale { counter: self.number(1)? },
            "clock" => Vote::ClockOff,
            "quarantined" => Vote::Quarantined,
            "late" => Vote::Late,
            _ => return Err(unexpected_reply(self.what)),
        };
        self.of_node(outcome)
    }

    pub(crate) fn healed(self) -> Result<NodeReply<Healed>, RequestError> {
        let outcome = match self.word() {
            "set" => Healed::Set,
            "busy" => Healed::Busy,
            "late" => Healed::Late,
            _ => return Err(unexpected_reply(self.what)),
        };
        self.of_node(outcome)
    }

    /// Returns the replies to this many extensions, in order.
    pub(crate) fn extended(
        self,
        items: usize,
    ) -> Result<Vec<Result<NodeReply<Extended>, RequestError>>, RequestError> {
        if self.word() != "extended" || self.len() != 1 + PER_ITEM * items {
            return Err(unexpected_reply(self.what));
        }
        let answer = |item: usize| {
            let at = 1 + PER_ITEM * item;
            let outcome = match self.text(at)? {
                "extended" => Extended::Extended,
                "gone" => Extended::Gone,
                "late" => Extended::Late,
                "refused" => return Err(refused_by_script(self.what, self.text(at + 1)?)),
                "error" => return Err(server_error(self.what, self.text(at + 1)?)),
                _ => return Err(unexpected_reply(self.what)),
            };
            self.of_node(outcome)
        };
        Ok((0..items).map(answer).collect())
    }

    /// Adds the node's time and its age, which is the first part of the reply.
    fn of_node<T>(&self, outcome: T) -> Result<NodeReply<T>, RequestError> {
        Ok(NodeReply { now: self.now, age: Duration::from_micros(self.number(0)?), outcome })
    }
}
