//! Cancellation of open runs on any node.

use crate::{error::CronError, scheduler::Scheduler};
use lock_ledger::{CommandReply, JobCommand, RunId};

impl Scheduler {
    /// Cancels all open runs of a job, on any node. Returns `false` if there were none.
    ///
    /// Within about a second, [`RunContext::cancelled`](crate::RunContext::cancelled) completes in
    /// their bodies, which are dropped after the [cancel grace](crate::JobBuilder::cancel_grace).
    /// Such an attempt has the outcome [`Cancelled`](crate::RunOutcome::Cancelled), unless the body
    /// succeeds within the grace. No further attempt follows, not even a retry that is already
    /// waiting or that would follow the node's death. A node whose heartbeats fail learns of the
    /// cancellation when it next renews the run's lease. Renewals are a third of the [run
    /// lease](crate::SchedulerBuilder::run_lease) apart.
    ///
    /// Later runs are not affected: [`pause`](Self::pause) stops the schedule, and
    /// [`cancel_trigger`](Self::cancel_trigger) withdraws a trigger that has not started.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_cron::{MemoryLedger, RunContext, Schedule, Scheduler};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cron = Scheduler::builder(LockFactory::new(MemoryBackend::new()), MemoryLedger::new()).build()?;
    /// # cron.job("invoices", Schedule::cron("0 2 * * *")?, |_: RunContext| async { Ok(()) }).register()?;
    /// assert!(!cron.cancel("invoices").await?, "nothing runs");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// If the future is dropped, the command may or may not have been applied. It can be repeated.
    pub async fn cancel(&self, job: &str) -> Result<bool, CronError> {
        self.cancel_runs(job, None).await
    }

    /// Cancels one open run of a job, like [`cancel`](Self::cancel) does for all of them.
    /// [`list`](Self::list) returns the ids of the open runs. Returns `false` if the run was not
    /// open.
    ///
    /// ```
    /// # use lock_core::{LockFactory, MemoryBackend};
    /// # use lock_cron::{MemoryLedger, RunContext, Schedule, Scheduler};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cron = Scheduler::builder(LockFactory::new(MemoryBackend::new()), MemoryLedger::new()).build()?;
    /// # cron.job("invoices", Schedule::cron("0 2 * * *")?, |_: RunContext| async { Ok(()) }).register()?;
    /// for job in cron.list().await? {
    ///     for open in job.open {
    ///         cron.cancel_run("invoices", open.run).await?;
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// If the future is dropped, the command may or may not have been applied. It can be repeated.
    pub async fn cancel_run(&self, job: &str, run: RunId) -> Result<bool, CronError> {
        self.cancel_runs(job, Some(run)).await
    }

    async fn cancel_runs(&self, job: &str, run: Option<RunId>) -> Result<bool, CronError> {
        let reply = self.command(job, JobCommand::Cancel { run }).await?;
        Ok(matches!(reply, CommandReply::Accepted { .. }))
    }
}
