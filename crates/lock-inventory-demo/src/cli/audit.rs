//! `audit`: a database against itself and against the journals of clients.

use super::{Ended, Secret, verdict};
use crate::{audit, load};
use clap::Args;
use std::{io::Write, path::PathBuf};

/// A database and the journals of its clients.
#[derive(Debug, Clone, Args)]
pub struct Audit {
    /// The database: sqlite:///path or postgres://…
    #[arg(long, value_name = "URL", value_parser = Secret::take)]
    pub database: Secret,

    /// A journal of `load`, of all clients of the database; may be given several times
    #[arg(long, value_name = "FILE")]
    pub journal: Vec<PathBuf>,
}

impl Audit {
    /// Audits, and prints every breach.
    ///
    /// # Errors
    /// A database or journal that cannot be read.
    ///
    /// # Cancel safety
    /// Dropping this closes the connection; nothing is changed.
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
