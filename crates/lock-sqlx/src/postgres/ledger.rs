//! The run ledger: transactions on the parts of a group.

use super::{
    error::failed,
    leases::decode,
    server::{Server, statement},
};
use crate::{
    columns::{micros, signed},
    connections::run,
};
use async_trait::async_trait;
use lock_core::{
    Worker,
    backend::{Applied, BackendError},
    clock::UtcTime,
};
use lock_ledger::{
    GroupName, MAX_INSTANCES_READ,
    stored::{Access, Change, Lock, Needs, Next, PartStore, Step},
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
    async fn transact(&self, group: GroupName, access: Access, step: Step) -> Result<(), BackendError> {
        let connections = match access {
            // Leases must not end behind a queue of claims.
            Access::Quick | Access::Renewal => &self.beats,
            Access::Read | Access::Durable => &self.ledger,
        };
        let mut lent = self.lend(connections).await?;
        let begin = match access {
            Access::Read => "begin isolation level repeatable read, read only",
            Access::Quick | Access::Durable | Access::Renewal => "begin isolation level read committed",
        };
        let mut tx = lent.connection.begin_with(begin).await.map_err(rolled_back)?;
        let decided = self.decide(&mut tx, &group, access, step).await;
        match &decided {
            Ok(()) => tx.commit().await.map_err(|error| failed("commit a record of jobs", error))?,
            Err(_) => tx.rollback().await.map_err(rolled_back)?,
        }
        lent.give_back();
        decided
    }

    /// Reads, decides and writes in a transaction.
    async fn decide(
        &self,
        tx: &mut PgTransaction<'_>,
        group: &GroupName,
        access: Access,
        mut step: Step,
    ) -> Result<(), BackendError> {
        let lock = |durable: &'static str| {
            self.statement(&self.statements.lock_group).bind(text(group)).bind(durable)
        };
        let begin = match access {
            Access::Read => self.statement(&self.statements.now),
            Access::Quick => lock("off"),
            Access::Durable | Access::Renewal => lock("on"),
        };
        let (now,) = decode(&begin.fetch_one(&mut **tx).await.map_err(rolled_back)?)?;
        let mut read = Vec::new();
        let changes = loop {
            match step(micros(now), read)? {
                Next::Read(needs) => read = self.parts(tx, group, needs).await?,
                Next::Commit(changes) => break changes,
            }
        };
        if changes.is_empty() { Ok(()) } else { self.write_parts(tx, group, changes).await }
    }

    async fn parts(
        &self,
        tx: &mut PgTransaction<'_>,
        group: &GroupName,
        needs: Needs,
    ) -> Result<Vec<(String, String, String)>, BackendError> {
        let mut parts = Vec::new();
        let (one, of_job) = match needs.lock {
            Lock::Nothing => (None, None),
            Lock::One(name) => (Some(name), None),
            Lock::OfJob(job) => (None, Some(job)),
        };
        if one.is_some() || of_job.is_some() {
            // Before the parts are read: what a transaction has committed meanwhile must be among them.
            let query = self.statement(&self.statements.lock_claims).bind(text(group)).bind(one).bind(of_job);
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
            .bind(i64::try_from(MAX_INSTANCES_READ).unwrap_or(i64::MAX))
            .bind(needs.of_job)
            .bind(needs.expired.map(signed));
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
            .bind(changes.iter().map(|change| change.expires_ms.map(signed)).collect::<Vec<_>>())
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
