//! A registered job and its effective schedule, with the fleet's controls applied.

use crate::{
    context::RunContext,
    plan::EffectiveControls,
    schedule::{DstPolicy, Schedule, ScheduleError},
    terms::JobTerms,
    time::UtcTime,
};
use lock_core::LockName;
use lock_ledger::{JobControls, Registration};
use std::{error::Error, fmt, future::Future, pin::Pin, sync::Arc};

/// The result of a job's body: `Ok(())`, or the error with which it failed.
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
    /// The revision of the instance's definition; 0 for a job in code.
    pub(crate) definition: u64,
    /// For an instance, the time from which `alert_after` is measured before the first success; `None` for a job in
    /// code.
    pub(crate) since: Option<UtcTime>,
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
        effective(&self.name, &self.schedule, controls)
    }

    /// Logs an error if this node cannot read the replacement schedule. Another version of the program may have stored
    /// it, or its zone may be unknown on this machine.
    pub(crate) fn check_replacement(&self, controls: Option<&JobControls>) {
        let Some(text) = controls.and_then(|controls| controls.schedule.as_deref()) else { return };
        if let Err(error) = read(&self.name, self.schedule.dst_policy(), text) {
            tracing::error!(
                cron.job = %self.name, %error, "failed to parse the replacement schedule; using the original one"
            );
        }
    }

    /// Returns the registration of the job in the ledger.
    pub(crate) fn registration(&self, controls: Option<&JobControls>) -> Registration {
        Registration { job: self.name.clone(), schedule: self.effective(controls).schedule.identity() }
    }
}

/// Returns the controls that apply to a job with this schedule, including the replacement if this node can read it.
pub(crate) fn effective(
    name: &LockName,
    schedule: &Schedule,
    controls: Option<&JobControls>,
) -> EffectiveControls {
    let (revision, paused) = controls.map_or((0, false), |controls| (controls.revision, controls.paused));
    let replacement = controls.and_then(|controls| controls.schedule.as_deref());
    let replacement = replacement.and_then(|text| read(name, schedule.dst_policy(), text).ok());
    EffectiveControls { revision, paused, schedule: replacement.unwrap_or_else(|| schedule.clone()) }
}

fn read(name: &LockName, policy: DstPolicy, text: &str) -> Result<Schedule, ScheduleError> {
    Ok(Schedule::cron(text)?.for_job(name.as_str())?.on_dst(policy))
}
