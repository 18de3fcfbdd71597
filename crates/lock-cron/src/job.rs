//! A registered job, and its schedule under the controls of the fleet.

use crate::{context::RunContext, plan::EffectiveControls, schedule::Schedule, terms::JobTerms};
use lock_core::LockName;
use lock_ledger::{JobControls, Registration};
use std::{error::Error, fmt, future::Future, pin::Pin, sync::Arc};

/// The result of a body: nothing, or the error with which it failed.
pub type RunResult = Result<(), Box<dyn Error + Send + Sync>>;

pub(crate) type Body =
    Arc<dyn Fn(RunContext) -> Pin<Box<dyn Future<Output = RunResult> + Send>> + Send + Sync>;

/// A registered job.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) name: LockName,
    pub(crate) schedule: Schedule,
    pub(crate) terms: JobTerms,
    pub(crate) body: Body,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, schedule, terms, .. } = self;
        f.debug_struct("Job").field("name", name).field("schedule", schedule).field("terms", terms).finish()
    }
}

impl Job {
    /// Returns the controls that apply here, including the replacement schedule if this node can read it.
    pub(crate) fn effective(&self, controls: Option<&JobControls>) -> EffectiveControls {
        let (revision, paused) = controls.map_or((0, false), |controls| (controls.revision, controls.paused));
        let replacement = controls.and_then(|controls| controls.schedule.as_deref());
        let schedule = replacement.and_then(|text| self.read(text)).unwrap_or_else(|| self.schedule.clone());
        EffectiveControls { revision, paused, schedule }
    }

    fn read(&self, text: &str) -> Option<Schedule> {
        let read = Schedule::cron(text).and_then(|schedule| schedule.for_job(self.name.as_str()));
        match read {
            Ok(schedule) => Some(schedule.on_dst(self.schedule.dst_policy())),
            Err(error) => {
                // Stored by another version of the program, or for a zone that this machine does not know.
                tracing::error!(cron.job = %self.name, %error, "replaced schedule cannot be read, using that of the program");
                None
            }
        }
    }

    /// Returns the registration of the job in the ledger.
    pub(crate) fn registration(&self, controls: Option<&JobControls>) -> Registration {
        Registration { job: self.name.clone(), schedule: self.effective(controls).schedule.identity() }
    }
}
