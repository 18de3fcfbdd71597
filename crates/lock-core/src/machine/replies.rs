//! Explicit releases that wait for a reply.

use super::{
    command::{Command, ReleaseAnswer, ReleaseOutcome, Unconfirmed},
    context::Ctx,
    event::Ticket,
};
use crate::{fifo_map::FifoMap, time::Moment};

/// Releases without a reply, each with the depth that it left and the deadline for its reply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct ReleaseReplies(FifoMap<Ticket, Open>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Open {
    left: u32,
    answer_by: Moment,
}

impl ReleaseReplies {
    pub(super) fn open(&mut self, ticket: Ticket, left: u32, answer_by: Moment) {
        self.0.insert(ticket, Open { left, answer_by });
    }

    /// Returns the earliest deadline for a reply.
    pub(super) fn answer_by(&self) -> Moment {
        self.0.iter().map(|(_, open)| open.answer_by).min().unwrap_or(Moment::NEVER)
    }

    /// Answers all releases. A release that left guards behind gets the remaining depth instead of *released*, *handed
    /// on* or *unconfirmed*.
    pub(super) fn answer(&mut self, s: &mut Ctx<'_>, answer: ReleaseAnswer) {
        while let Some((ticket, open)) = self.0.pop_front() {
            let answer = match (answer, open.left) {
                (Ok(ReleaseOutcome::Released | ReleaseOutcome::HandedOn) | Err(Unconfirmed), depth @ 1..) => {
                    Ok(ReleaseOutcome::StillHeld { depth })
                }
                (other, _) => other,
            };
            s.emit(Command::ReleaseAnswered { ticket: Some(ticket), answer });
        }
    }

    /// Answers the releases that left guards behind: the depth in this process is certain, whatever the store has
    /// recorded.
    pub(super) fn answer_inner(&mut self, s: &mut Ctx<'_>) {
        self.answer_if(s, |open| open.left > 0);
    }

    /// Answers the releases whose time has passed.
    pub(super) fn answer_overdue(&mut self, s: &mut Ctx<'_>) {
        let now = s.now;
        self.answer_if(s, |open| open.answer_by <= now);
    }

    /// Answers the chosen releases without the store: with the depth left in this process, or as unconfirmed.
    fn answer_if(&mut self, s: &mut Ctx<'_>, chosen: impl Fn(&Open) -> bool) {
        let next = |replies: &FifoMap<Ticket, Open>| {
            replies.iter().find(|(_, open)| chosen(open)).map(|(ticket, open)| (*ticket, open.left))
        };
        while let Some((ticket, left)) = next(&self.0) {
            self.0.remove(&ticket);
            let answer = match left {
                0 => Err(Unconfirmed),
                depth => Ok(ReleaseOutcome::StillHeld { depth }),
            };
            s.emit(Command::ReleaseAnswered { ticket: Some(ticket), answer });
        }
    }
}
