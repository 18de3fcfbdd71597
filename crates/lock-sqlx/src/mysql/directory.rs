//! Process cards and the list of held locks.

use super::{
    server::{Server, decode},
    statements::{LIST, READ_CARD, REMOVE_CARD, Value, WRITE_CARD},
};
use crate::columns::millis;
use lock_core::{
    LockName,
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
        let values = [
            ("process", Value::Text(&process.to_string())),
            ("card", Value::Text(&card)),
            ("millis", Value::Number(millis(ttl))),
        ];
        self.execute(&self.upkeep, "write a process card", WRITE_CARD, &values).await.map(drop)
    }

    pub(super) async fn remove_card(&self, process: ProcessId) -> Result<(), BackendError> {
        let values = [("process", Value::Text(&process.to_string()))];
        self.execute(&self.upkeep, "remove a process card", REMOVE_CARD, &values).await.map(drop)
    }

    pub(super) async fn read_card(&self, process: ProcessId) -> Result<Option<Vec<u8>>, BackendError> {
        let values = [("process", Value::Text(&process.to_string()))];
        let rows = self.execute(&self.upkeep, "read a process card", READ_CARD, &values).await?;
        rows.first().map(|row| decode::<(Vec<u8>,)>(row).map(|(card,)| card)).transpose()
    }

    pub(super) async fn list(&self, prefix: String, limits: ListLimits) -> Result<Listing, BackendError> {
        // One more, which says that there are more.
        let limit = i64::try_from(limits.names()).unwrap_or(i64::MAX - 1) + 1;
        let values = [("prefix", Value::Text(&prefix)), ("limit", Value::Number(limit))];
        let rows = self.execute(&self.upkeep, "list locks", LIST, &values).await?;
        let is_truncated = rows.len() > limits.names();
        let names: Vec<(Vec<u8>,)> =
            rows.iter().take(limits.names()).map(decode).collect::<Result<_, BackendError>>()?;
        // A reserved name is not valid.
        let names = names.into_iter().filter_map(|(name,)| LockName::new(String::from_utf8(name).ok()?).ok());
        Ok(Listing::new(names, is_truncated))
    }
}
