//! The audit of a database. It compares the rows with the counters and with the outcomes recorded
//! by clients.

use crate::{
    domain::{Audit, ClientOutcome, thousands},
    load::{Entry, Outcome},
    store::{DatabaseUrl, Store, StoreError},
};
use std::{
    collections::BTreeMap,
    io::{self, Write},
};

/// Audits the database. If `clients` contains the entries of all client journals, also compares the
/// ledger with them.
///
/// # Errors
/// Returns [`StoreError`] if the database cannot be read.
///
/// # Cancel safety
/// Dropping this closes the connection.
pub async fn run(database: &DatabaseUrl, clients: Option<&[Entry]>) -> Result<Audit, StoreError> {
    let store = Store::open(database).await?;
    let books = store.books().await;
    store.close().await;
    Ok(Audit::of(&books?, clients.map(outcomes).as_ref()))
}

/// Prints the result, with one line per breach.
///
/// # Errors
/// Returns an error if writing to `out` fails.
pub fn print(audit: &Audit, clients: Option<&[Entry]>, out: &mut impl Write) -> io::Result<()> {
    for breach in &audit.breaches {
        writeln!(out, "{breach}")?;
    }
    let count = |number: i64| thousands(number.unsigned_abs());
    writeln!(
        out,
        "{} orders, {} units sold of {}, {} oversold, {} breaches.",
        thousands(audit.orders),
        count(audit.sold),
        count(audit.supplied),
        count(audit.oversold),
        thousands(audit.breaches.len() as u64),
    )?;
    match clients {
        Some(entries) => {
            writeln!(out, "Compared with {} client outcomes.", thousands(entries.len() as u64))
        }
        None => writeln!(out, "Not compared with client outcomes: pass the journals with --journal."),
    }
}

/// Returns the outcomes by key.
pub(crate) fn outcomes(entries: &[Entry]) -> BTreeMap<String, ClientOutcome> {
    let outcome = |entry: &Entry| match entry.outcome {
        Outcome::Acknowledged { .. } => ClientOutcome::Acknowledged,
        Outcome::Refused { .. } => ClientOutcome::Refused,
        Outcome::Unknown { .. } => ClientOutcome::Unknown,
    };
    entries.iter().map(|entry| (entry.key.clone(), outcome(entry))).collect()
}
