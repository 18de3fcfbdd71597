//! Bugs that are planted into a copy of lock-core's sources. A patch whose place is not found exactly once fails the build.

/// Replaces `from`, which stands once in `file`, by `to`.
pub(crate) struct Patch {
    pub(crate) file: &'static str,
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
}

pub(crate) const PATCHES: [Patch; 5] = [
    Patch {
        file: "explored.rs",
        from: "    /// A shutdown does not wait for those who are entering.\n    EntersUncounted,\n",
        to: "    /// A shutdown does not wait for those who are entering.\n    EntersUncounted,\n    \
             /// A future of a loss that was polled before waits to be woken, and compares no clock.\n    LossIsNotLookedFor,\n    \
             /// Callers that set an alarm wake the timekeeper.\n    CallersWakeTimekeeper,\n    \
             /// A waker that panics ends the task that woke it.\n    WakersEndTheWorker,\n",
    },
    Patch {
        file: "driver/hold_state.rs",
        from: "        let Self { hold, key, timer } = &mut *self;\n",
        to: "        let Self { hold, key, timer } = &mut *self;\n        \
             if key.was_set() && crate::sync::planted(crate::sync::Plant::LossIsNotLookedFor) {\n            \
                 if let Validity::Ended(how) = *lock(&hold.validity) {\n                return Poll::Ready(how);\n            }\n            \
                 hold.waiting.register(key, cx.waker());\n            return Poll::Pending;\n        }\n",
    },
    Patch {
        file: "driver/alarm.rs",
        from: "        state.sleep.as_mut().reset(due);\n        if state.has_backstop {\n",
        to: "        state.sleep.as_mut().reset(due);\n        \
             if crate::sync::planted(crate::sync::Plant::CallersWakeTimekeeper) {\n            \
                 state.sleep.as_mut().reset(Instant::now());\n            \
                 let waker = state.waker.clone();\n            drop(state);\n            waker.into_iter().for_each(wake);\n            return;\n        }\n        \
             if state.has_backstop {\n",
    },
    Patch {
        file: "driver/waker_set.rs",
        from: "impl WakerSet {\n",
        to: "impl WakerKey {\n    pub(super) fn was_set(&self) -> bool {\n        self.0.is_some()\n    }\n}\n\nimpl WakerSet {\n",
    },
    Patch {
        file: "driver/waker_set.rs",
        from: "pub(super) fn contained(wakes: impl FnOnce()) {\n",
        to: "pub(super) fn contained(wakes: impl FnOnce()) {\n    \
             if crate::sync::planted(crate::sync::Plant::WakersEndTheWorker) {\n        return wakes();\n    }\n",
    },
];
