//! Process cards and the list of held locks.

use super::{
    leases::decode,
    server::{Server, statement},
};
use crate::{
    columns::signed,
    pools::{RESERVED, listed_name},
};
use lock_core::{
    backend::{BackendError, ProcessId},
    inspect::{ListLimits, Listing},
};
use std::time::Duration;

impl Server {
    pub(super) async fn write_card(
        &self,
        process: ProcessId,
        card: String,
        ttl: Duration,
    ) -> Result<(), BackendError> {
        let millis = signed(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)).min(i64::MAX / 2);
        let query = statement(&self.statements.write_card).bind(process.to_string()).bind(card).bind(millis);
        self.execute(&self.upkeep, "write a process card", query).await.map(drop)
    }

    pub(super) async fn remove_card(&self, process: ProcessId) -> Result<(), BackendError> {
        let query = statement(&self.statements.remove_card).bind(process.to_string());
        self.execute(&self.upkeep, "remove a process card", query).await.map(drop)
    }

    pub(super) async fn read_card(&self, process: ProcessId) -> Result<Option<String>, BackendError> {
        let query = statement(&self.statements.read_card).bind(process.to_string());
        let rows = self.execute(&self.upkeep, "read a process card", query).await?;
        rows.first().map(|row| decode::<(String,)>(row).map(|(card,)| card)).transpose()
    }

    pub(super) async fn list(&self, prefix: String, limits: ListLimits) -> Result<Listing, BackendError> {
        // One more, which says that there are more.
        let limit = i64::try_from(limits.names()).unwrap_or(i64::MAX - 1) + 1;
        let query = |text| statement(text).bind(prefix.clone()).bind(limit);
        let mut rows = self.execute(&self.upkeep, "list locks", query(&self.statements.list)).await?;
        let begins_pools = prefix.starts_with(RESERVED) || RESERVED.starts_with(&prefix);
        if begins_pools && !prefix.is_empty() {
            match self.execute(&self.upkeep, "list pools", query(&self.statements.list_pools)).await {
                Ok(pools) => rows.extend(pools),
                // A list of locks does not depend on pools.
                Err(error) if !prefix.starts_with(RESERVED) => {
                    tracing::debug!(%error, "failed to list pools besides locks");
                }
                Err(error) => return Err(error),
            }
        }
        let is_truncated = rows.len() > limits.names();
        let names: Vec<(String,)> =
            rows.iter().take(limits.names()).map(decode).collect::<Result<_, BackendError>>()?;
        let names = names.into_iter().filter_map(|(name,)| listed_name(&name));
        Ok(Listing::new(names, is_truncated))
    }
}
