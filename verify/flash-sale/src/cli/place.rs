//! The server options for `all` and `chaos`.

use super::{
    Secret, asked_to_stop,
    secret::{parse_database, parse_locks},
};
use crate::{
    addresses::LocksUrl,
    report::Results,
    scenario::{AllPlan, DatabasePlan, Site, SitePlan, all},
};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget};
use std::{
    env,
    error::Error,
    io::{IsTerminal, stderr},
    pin::pin,
    process::ExitCode,
    time::Duration,
};

/// The stores for the scenarios. By default, a private redis-server and SQLite.
#[derive(Debug, Clone, Args)]
pub struct Place {
    /// Keep the locks on this Redis server instead of a private one, and remove the run's keys at the end [env:
    /// SHOP_LOCKS]
    #[arg(long, value_name = "URL", value_parser = Secret::take)]
    pub redis: Option<Secret>,

    /// Keep the stock on a private PostgreSQL server that is started for this run and removed afterwards
    #[arg(long, conflicts_with = "database")]
    pub postgres: bool,

    /// Keep the stock on this PostgreSQL server, in databases that are created for the run and dropped after it [env:
    /// SHOP_DATABASE]
    #[arg(long, value_name = "URL", value_parser = Secret::take)]
    pub database: Option<Secret>,

    /// Seed for all random choices; the same seed repeats them
    #[arg(long, value_name = "SEED", default_value = "42")]
    pub seed: u64,
}

impl Place {
    /// Runs the parts. If a signal arrives, cleans up all servers and returns the signal's exit
    /// code.
    pub(super) async fn run(
        &self,
        plan: &AllPlan,
    ) -> Result<Result<Results, ExitCode>, Box<dyn Error + Send + Sync>> {
        let (plan_of_site, say) = (self.plan()?, Say::on_stderr());
        let mut stop = pin!(asked_to_stop());
        let site = tokio::select! {
            site = Site::open(plan_of_site) => site?,
            code = &mut stop => return Ok(Err(code)),
        };
        let line = |line: &str| say.line(line);
        let ended = tokio::select! {
            results = all(&site, plan, &line) => Ok(results),
            code = &mut stop => Err(code),
        };
        let closed = site.close().await;
        match ended {
            Ok(results) => {
                let results = results?;
                closed?;
                Ok(Ok(results))
            }
            Err(code) => {
                closed?;
                Ok(Err(code))
            }
        }
    }

    fn plan(&self) -> Result<SitePlan, Box<dyn Error + Send + Sync>> {
        let database = match self.postgres {
            true => DatabasePlan::PrivatePostgres,
            false => {
                parse_database(self.database.clone())?.map_or(DatabasePlan::Sqlite, DatabasePlan::Postgres)
            }
        };
        let redis = parse_locks(self.redis.clone())?.filter(|url| *url != LocksUrl::MEMORY);
        Ok(SitePlan { program: env::current_exe()?, redis, database })
    }
}

/// The progress of a long command on stderr, as lines with a spinner below them on a terminal.
#[derive(Debug)]
struct Say {
    spinner: Option<ProgressBar>,
}

impl Say {
    fn on_stderr() -> Self {
        let spinner = stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self { spinner }
    }

    fn line(&self, line: &str) {
        match &self.spinner {
            Some(bar) => bar.println(line),
            None => eprintln!("{line}"),
        }
    }
}

impl Drop for Say {
    fn drop(&mut self) {
        if let Some(bar) = &self.spinner {
            bar.finish_and_clear();
        }
    }
}
