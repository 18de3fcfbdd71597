//! The end of a run inside a transaction of the application.

use crate::{FenceError, FencedTransaction, fence::InTransaction};
use lock_ledger::{
    StartedRun,
    stored::{FINISHED, argument_name},
};
use sqlx::{Database, Transaction};

/// A transaction of a database that keeps the records of jobs, for [`finish_in`]: PostgreSQL or SQLite.
pub trait JobTransaction: FencedTransaction + ChangesRuns {}

impl<T: FencedTransaction + ChangesRuns> JobTransaction for T {}

/// Not for implementations elsewhere.
pub trait ChangesRuns: InTransaction {
    /// Executes a statement with text. Returns the number of rows that it has changed.
    fn change(
        &mut self,
        statement: &'static str,
        text: [String; 4],
    ) -> impl Future<Output = sqlx::Result<u64>> + Send;
}

#[cfg(feature = "postgres")]
impl ChangesRuns for sqlx::PgConnection {
    async fn change(&mut self, statement: &'static str, text: [String; 4]) -> sqlx::Result<u64> {
        let query = text.into_iter().fold(sqlx::query(statement), |query, text| query.bind(text));
        Ok(query.execute(self).await?.rows_affected())
    }
}

#[cfg(feature = "sqlite")]
impl ChangesRuns for sqlx::SqliteConnection {
    async fn change(&mut self, statement: &'static str, text: [String; 4]) -> sqlx::Result<u64> {
        let query = text.into_iter().fold(sqlx::query(statement), |query, text| query.bind(text));
        Ok(query.execute(self).await?.rows_affected())
    }
}

impl<DB: Database<Connection: ChangesRuns>> ChangesRuns for Transaction<'_, DB> {
    async fn change(&mut self, statement: &'static str, text: [String; 4]) -> sqlx::Result<u64> {
        (**self).change(statement, text).await
    }
}

/// Marks a claim: group, name of the run, claim, the mark. Changes nothing if the run has another claim, or has ended.
const FINISH: &str = "
update distlock_run set data = $3 || $4
where grp = $1 and kind = 'claim' and name = $2 and data in ($3, $3 || $4)";

/// Records the success of a run in a transaction of its body: its effect and its record are committed together, or
/// neither is. Return `Ok` from the body after the commit. If this transaction is not committed although the body returns
/// `Ok`, the attempt counts as interrupted, and the run is started again as its orphan policy says. An attempt that has
/// ended before, for example by its timeout, is stale.
///
/// The scheduler's run ledger must be in the database of the transaction; in PostgreSQL with `?schema=`, that schema must
/// be in its `search_path`. Until the transaction ends, this run is not started again. In PostgreSQL it delays no other
/// run, renewal or heartbeat; in SQLite it has the file, as all write transactions. A client that stays idle in it keeps
/// the run open: set `idle_in_transaction_session_timeout`. The record is part of the savepoint in which this is called.
///
/// ```
/// # #[cfg(feature = "postgres")]
/// # async fn body(run: impl AsRef<lock_ledger::StartedRun>, pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// // In the body of a job, where `run` is its `RunContext`:
/// let mut tx = pool.begin().await?;
/// sqlx::query("update invoice set sent = true where not sent").execute(&mut *tx).await?;
/// lock_sqlx::finish_in(&mut tx, &run).await?; // an error rolls the transaction back
/// tx.commit().await?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// - [`FenceError::Stale`] if the run was started again, or has ended;
/// - [`FenceError::NoTransaction`] or [`FenceError::OtherDatabase`] if the record would not be part of a transaction;
/// - [`FenceError::Failed`] if the database fails.
///
/// # Cancel safety
/// Dropping the future leaves the transaction open. The caller must roll it back.
pub async fn finish_in(
    transaction: &mut impl JobTransaction,
    run: &impl AsRef<StartedRun>,
) -> Result<(), FenceError> {
    let run = run.as_ref();
    run.leave_to_transaction();
    if !transaction.is_in_transaction() {
        return Err(FenceError::NoTransaction);
    }
    let (job, claim) = (run.job(), run.claim().to_string());
    let text =
        [job.group.as_str().to_owned(), argument_name(&job.name, run.run()), claim, FINISHED.to_owned()];
    match transaction.change(FINISH, text).await? {
        1 => Ok(()),
        _ => Err(FenceError::Stale),
    }
}
