//! Process cards and the list of held locks.

use super::{
    server::{Server, decode},
    statements::{LIST, READ_CARD, REMOVE_CARD, Value, WRITE_CARD},
};
use crate::columns::millis;
use async_trait::async_trait;
use lock_core::{
    __private::{decode_card, encode_card},
    LockName,
    backend::{BackendError, Directory, ProcessId},
    inspect::{ListLimits, Listing, ProcessCard},
};
use std::time::Duration;

#[async_trait]
impl Directory for Server {
    async fn write_card(
        &self,
        process: ProcessId,
        card: ProcessCard,
        ttl: Duration,
    ) -> Result<(), BackendError> {
        let values = [
            ("process", Value::Text(&process.to_string())),
            ("card", Value::Text(&encode_card(&card))),
            ("millis", Value::Number(millis(ttl))),
        ];
        self.execute(&self.upkeep, "write a process card", WRITE_CARD, &values).await.map(drop)
    }

    async fn remove_card(&self, process: ProcessId) -> Result<(), BackendError> {
        let values = [("process", Value::Text(&process.to_string()))];
        self.execute(&self.upkeep, "remove a process card", REMOVE_CARD, &values).await.map(drop)
    }

    async fn read_card(&self, process: ProcessId) -> Result<Option<ProcessCard>, BackendError> {
        let values = [("process", Value::Text(&process.to_string()))];
        let rows = self.execute(&self.upkeep, "read a process card", READ_CARD, &values).await?;
        let card = rows.first().map(decode::<(Vec<u8>,)>).transpose()?;
        Ok(card.and_then(|(card,)| decode_card(&card)))
    }

    async fn list(&self, prefix: String, limits: ListLimits) -> Result<Listing, BackendError> {
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
