//! `audit`: checks a database against its own counters and against the journals of clients.

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

    /// Journal of `load` to compare; repeat it for the journals of all clients of the database
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
