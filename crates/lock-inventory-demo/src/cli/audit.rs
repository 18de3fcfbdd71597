//! `audit`: checks the orders in a database against its counters and against clients' journals.

use super::{Ended, Secret, verdict};
use crate::{audit, load};
use clap::Args;
use std::{io::Write, path::PathBuf};

/// Options for the `audit` command.
#[derive(Debug, Clone, Args)]
pub struct Audit {
    /// Database to audit: sqlite:///path or postgres://…
    #[arg(long, value_name = "URL", value_parser = Secret::take)]
    pub database: Secret,

    /// Journal written by `load`, to compare with the database; repeat the option to pass the journals of all clients
    #[arg(long, value_name = "FILE")]
    pub journal: Vec<PathBuf>,
}

impl Audit {
    /// Audits the database and prints every breach.
    ///
    /// # Errors
    /// Returns an error if the database or a journal cannot be read.
    ///
    /// # Cancel safety
    /// Dropping this closes the connection. The audit never changes data.
    pub async fn run(self, out: &mut (impl Write + Send)) -> Ended {
        let mut entries = Vec::new();
        for journal in &self.journal {
            entries.extend(load::read(journal)?);
        }
        let clients = (!self.journal.is_empty()).then_some(&*entries);
        let audit = audit::run(&self.database.reveal().parse()?, clients).await?;
        audit::print(&audit, clients, out)?;
        Ok(verdict(audit.breaches.is_empty()))
    }
}
