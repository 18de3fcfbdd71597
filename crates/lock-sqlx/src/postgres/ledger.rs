//! The run ledger: transactions on the parts of a group.

use super::{
    error::failed,
    leases::decode,
    server::{Server, micros, run, statement},
};
use async_trait::async_trait;
use lock_core::{
    Worker,
    backend::{Applied, BackendError},
    clock::UtcTime,
};
use lock_ledger::{
    GroupName, MAX_INSTANCES_READ,
    stored::{Access, Change, Needs, Next, PartStore, Step},
};
use sqlx::{Connection as _, PgTransaction, Postgres, postgres::PgArguments, query::Query};
use std::{fmt, sync::Arc};

/// The ledger of a server.
pub(super) struct Ledger {
    pub(super) server: Arc<Server>,
    pub(super) keeper: Worker,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").finish_non_exhaustive()
    }
}

#[async_trait]
impl PartStore for Ledger {
    fn now(&self) -> Option<UtcTime> {
        self.server.now()
    }

    async fn transact(&self, group: GroupName, access: Access, step: Step) -> Result<(), BackendError> {
        let server = self.server.clone();
        run(&self.keeper, async move { server.transact(group, access, step).await }).await
    }
}

impl Server {
    /// An error closes the connection, which rolls the transaction back.
    async fn transact(&self, group: GroupName, access: Access, mut step: Step) -> Result<(), BackendError> {
        let mut lent = self.lend(&self.ledger).await?;
        let begin = match access {
            Access::Read => "begin isolation level repeatable read, read only",
            Access::Quick | Access::Durable => "begin",
        };
        let mut tx = lent.connection()?.begin_with(begin).await.map_err(rolled_back)?;
        let begin = match access {
            Access::Read => self.statement(&self.statements.now),
            Access::Quick => self.statement(&self.statements.lock_group).bind(text(&group)).bind("off"),
            Access::Durable => self.statement(&self.statements.lock_group).bind(text(&group)).bind("on"),
        };
        let (now,) = decode(&begin.fetch_one(&mut *tx).await.map_err(rolled_back)?)?;
        let mut read = Vec::new();
        let changes = loop {
            match step(micros(now), read)? {
                Next::Read(needs) => read = self.parts(&mut tx, &group, needs).await?,
                Next::Commit(changes) => break changes,
            }
        };
        if !changes.is_empty() {
            self.write_parts(&mut tx, &group, changes).await?;
        }
        tx.commit().await.map_err(|error| failed("commit a record of jobs", error))?;
        lent.give_back();
        Ok(())
    }

    async fn parts(
        &self,
        tx: &mut PgTransaction<'_>,
        group: &GroupName,
        needs: Needs,
    ) -> Result<Vec<(String, String, String)>, BackendError> {
        let mut parts = Vec::new();
        if let Some(claim) = needs.claim {
            // Before the parts are read: what a transaction has committed meanwhile must be among them.
            let query = self.statement(&self.statements.lock_claim).bind(text(group)).bind(claim);
            parts = query.fetch_all(&mut **tx).await.map_err(rolled_back)?;
        }
        let strings = |kinds: &[&str]| kinds.iter().map(|&kind| kind.to_owned()).collect::<Vec<_>>();
        let query = self
            .statement(&self.statements.parts)
            .bind(text(group))
            .bind(strings(needs.kinds))
            .bind(needs.names)
            .bind(strings(needs.all_of))
            .bind(needs.open)
            .bind(needs.controlled)
            .bind(needs.page)
            .bind(i64::try_from(MAX_INSTANCES_READ).unwrap_or(i64::MAX));
        parts.extend(query.fetch_all(&mut **tx).await.map_err(rolled_back)?);
        parts.iter().map(decode).collect()
    }

    async fn write_parts(
        &self,
        tx: &mut PgTransaction<'_>,
        group: &GroupName,
        changes: Vec<Change>,
    ) -> Result<(), BackendError> {
        let query = self
            .statement(&self.statements.write_parts)
            .bind(text(group))
            .bind(changes.iter().map(|change| change.kind.to_owned()).collect::<Vec<_>>())
            .bind(changes.iter().map(|change| change.name.clone()).collect::<Vec<_>>())
            .bind(changes.iter().map(|change| change.open).collect::<Vec<_>>())
            .bind(changes.iter().map(|change| change.controlled).collect::<Vec<_>>())
            .bind(changes.into_iter().map(|change| change.data).collect::<Vec<_>>());
        query.execute(&mut **tx).await.map(drop).map_err(rolled_back)
    }

    /// Begins a statement of a transaction, which a pooler may give a connection that knows no statement by name.
    fn statement(&self, text: &Arc<str>) -> Query<'static, Postgres, PgArguments> {
        statement(text).persistent(!self.place.has_pooler)
    }
}

fn text(group: &GroupName) -> String {
    group.as_str().to_owned()
}

/// The error of a statement before the commit.
fn rolled_back(error: sqlx::Error) -> BackendError {
    failed("read or write a record of jobs", error).with_applied(Applied::No)
}
