//! Options as text: the lease, and each option that was chosen.

use super::LockOptions;
use std::fmt;

impl LockOptions {
    /// Adds the lease, and each option that differs from its default.
    pub(crate) fn debug_fields(&self, text: &mut fmt::DebugStruct<'_, '_>) {
        text.field(if self.fixed { "fixed_lease" } else { "lease" }, &self.lease);
        let default = Self::new();
        let chosen = |value, default| Some(value).filter(|value| *value != default);
        let intervals = [
            ("renew_every", self.renew_every),
            ("operation_timeout", self.operation_timeout),
            ("margin", self.margin),
            ("outage_budget", self.outage_budget),
            ("poll_interval", chosen(self.poll_interval, default.poll_interval)),
            ("max_hold", self.max_hold),
            ("min_hold", chosen(self.min_hold, default.min_hold)),
        ];
        for (option, interval) in intervals {
            if let Some(interval) = interval {
                text.field(option, &interval);
            }
        }
        if let Some(floor) = &self.token_floor {
            text.field("token_floor", floor);
        }
        if self.retention != default.retention {
            text.field("retention", &self.retention);
        }
        if self.hand_off != default.hand_off {
            text.field("hand_off", &self.hand_off);
        }
    }
}

impl fmt::Debug for LockOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("LockOptions");
        self.debug_fields(&mut text);
        text.finish_non_exhaustive()
    }
}
