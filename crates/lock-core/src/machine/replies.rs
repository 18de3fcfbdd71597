//! Releases by hand that wait for an answer.

use super::{
    command::{Command, ReleaseAnswer, ReleaseOutcome, Unconfirmed},
    context::Ctx,
    event::Ticket,
};
use crate::time::Moment;

/// Each with the depth that it left, and when it is answered at the latest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct ReleaseReplies(Vec<Open>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Open {
    ticket: Ticket,
    left: u32,
    answer_by: Moment,
}

impl ReleaseReplies {
    pub(super) fn open(&mut self, ticket: Ticket, left: u32, answer_by: Moment) {
        self.0.push(Open { ticket, left, answer_by });
    }

    /// When the first of them is to be answered.
    pub(super) fn answer_by(&self) -> Moment {
        self.0.iter().map(|open| open.answer_by).min().unwrap_or(Moment::NEVER)
    }

    /// Answers all; who left guards behind is told so instead of *released*, or that nobody knows.
    pub(super) fn answer(&mut self, s: &mut Ctx<'_>, answer: ReleaseAnswer) {
        for open in self.0.drain(..) {
            let answer = match (answer, open.left) {
                (Ok(ReleaseOutcome::Released) | Err(Unconfirmed), depth @ 1..) => {
                    Ok(ReleaseOutcome::StillHeld { depth })
                }
                (other, _) => other,
            };
            s.emit(Command::ReleaseAnswered { ticket: open.ticket, answer });
        }
    }

    /// Answers those who left guards behind: the depth in this process is certain whatever the store knows.
    pub(super) fn answer_inner(&mut self, s: &mut Ctx<'_>) {
        for open in self.0.extract_if(.., |open| open.left > 0) {
            let answer = Ok(ReleaseOutcome::StillHeld { depth: open.left });
            s.emit(Command::ReleaseAnswered { ticket: open.ticket, answer });
        }
    }

    /// Answers those whose time is over.
    pub(super) fn answer_overdue(&mut self, s: &mut Ctx<'_>) {
        for open in self.0.extract_if(.., |open| open.answer_by <= s.now) {
            let answer = match open.left {
                0 => Err(Unconfirmed),
                depth => Ok(ReleaseOutcome::StillHeld { depth }),
            };
            s.out.push(Command::ReleaseAnswered { ticket: open.ticket, answer });
        }
    }
}
