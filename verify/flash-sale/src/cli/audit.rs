//! `audit`: checks orders, stock and money in the databases, and compares them with clients' journals.

use super::{Ended, Secret, secret::parse_databases, verdict};
use crate::{audit, load};
use clap::Args;
use std::{io::Write, path::PathBuf};

/// Options for the `audit` command.
#[derive(Debug, Clone, Args)]
pub struct Audit {
    /// Database of the shops: sqlite:///path or postgres://… [env: SHOP_DATABASE]
    #[arg(long, value_name = "URL", value_parser = Secret::take)]
    pub database: Option<Secret>,

    /// Database of the payment provider [env: SHOP_PAYMENTS]
    #[arg(long, value_name = "URL", value_parser = Secret::take)]
    pub payments: Option<Secret>,

    /// Journal written by `load`, to compare with the orders; repeat the option to pass the journals of all clients
    #[arg(long, value_name = "FILE")]
    pub journal: Vec<PathBuf>,
}

impl Audit {
    /// Audits the databases and prints every finding.
    ///
    /// # Errors
    /// Returns an error if a database or a journal cannot be read.
    ///
    /// # Cancel safety
    /// Dropping this closes the connections. The audit never changes a row.
    pub async fn run(self, out: &mut (impl Write + Send)) -> Ended {
        let mut entries = Vec::new();
        for journal in &self.journal {
            entries.extend(load::read(journal)?);
        }
        let clients = (!self.journal.is_empty()).then_some(&*entries);
        let databases = parse_databases(self.database, self.payments)?;
        let databases = databases.ok_or("the databases are missing: set --database and --payments")?;
        let audit = audit::of_databases(&databases, clients).await?;
        writeln!(out, "{}", audit.rows)?;
        for lie in &audit.lies {
            writeln!(out, "- {lie}")?;
        }
        match clients {
            Some(entries) => writeln!(out, "Compared with {} client outcomes.", entries.len())?,
            None => writeln!(out, "Not compared with client outcomes: pass the journals with --journal.")?,
        }
        Ok(verdict(audit.findings().next().is_none()))
    }
}
