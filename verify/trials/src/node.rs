//! The commands of the executable, one function each.

mod contend;
mod count;
mod cron;
mod elect;
mod hold;
mod orders;
mod pay;
mod work;

pub use orders::Orders;

use crate::{
    cli::{Cli, Command},
    line::Report,
    referee::Witness,
};
use lock_core::{LockFactory, LockName, LockOptions, inspect::ForceReleaseOutcome};
use lock_cron::Placement;
use std::{error::Error, time::Duration};

/// The default time limit of hand-offs, used if the command line sets their number.
const MAX_CHAIN_TIME: Duration = Duration::from_millis(40);

/// The reason why a process ends early.
pub type Failure = Box<dyn Error + Send + Sync>;

/// Connects and executes the command.
///
/// # Errors
/// The error of the connection or of the lock.
///
/// # Cancel safety
/// Dropping it leaves held locks to expire.
pub async fn run(cli: &Cli) -> Result<(), Failure> {
    // A quorum has no run ledger.
    let (store, ledger) = match cli.command {
        Command::Cron { .. } => {
            let (store, ledger) = cli.client.connect_with_ledger(&cli.url).await?;
            (store, Some(ledger))
        }
        _ => (cli.client.connect(&cli.url).await?, None),
    };
    let mut options = LockOptions::new().lease(cli.lease);
    if let Some(passes) = cli.hand_off {
        options = options.hand_off(passes, MAX_CHAIN_TIME);
    }
    if let Some(budget) = cli.outage_budget {
        options = options.outage_budget(budget);
    }
    let locks = LockFactory::builder(store).options(options).build()?;
    let witness = cli.referee.map(Witness::of).transpose()?.map(|witness| (witness, cli.lease));
    let mut orders = Orders::from_stdin();
    match &cli.command {
        Command::Count { lock, tasks, sections, counter } => {
            let counter = count::Counter::connect(&cli.url, counter)?;
            count::run(&locks.named(lock)?, *tasks, *sections, counter, &mut orders).await?;
        }
        Command::Hold { lock } => {
            hold::obey(&locks.named(lock)?, witness, &mut orders).await?;
        }
        Command::Contend { lock, tasks, takes } => {
            contend::run(&locks.named(lock)?, *tasks, *takes, witness).await?;
        }
        Command::Work { pause, takes, fence, seed, locks: names } => {
            let terms = work::Terms { pause: *pause, takes: *takes, fence: fence.clone(), seed: *seed };
            work::run(&locks, names, terms, witness, &mut orders).await?;
        }
        Command::Cron { group, schedule, takes, adopt, catch_up, max_running, pool, on_leader, fence } => {
            let placement = if *on_leader { Placement::Leader } else { Placement::Spread };
            let (takes, adopt, catch_up) = (*takes, *adopt, *catch_up);
            let (max_running, pool, fence) = (*max_running, *pool, fence.clone());
            let work = cron::Work { takes, adopt, catch_up, max_running, pool, placement, fence };
            let ledger = ledger.ok_or("a fleet needs a run ledger")?;
            cron::run((&locks, ledger), cli.lease, group, schedule.as_deref(), work, orders).await?;
        }
        Command::Elect { name } => {
            elect::run(&locks, name, cli.lease, witness, orders).await?;
        }
        Command::Pay { database, requests, keys, seed } => {
            let (database, requests, keys, seed) = (database.clone(), *requests, *keys, *seed);
            pay::run(&locks, pay::Terms { database, requests, keys, seed }, &mut orders).await?;
        }
        Command::Force { lock } => {
            let forced = locks.force_release(&LockName::new(lock)?).await?;
            Report::Forced { forced: matches!(forced, ForceReleaseOutcome::Released { .. }) }.say();
        }
        Command::Inspect { lock } => {
            let stored = locks.inspect(&LockName::new(lock)?).await?.stored;
            let remaining = stored.as_ref().map(|held| held.remaining.unwrap_or_default().as_millis());
            Report::Locked { locked: stored.is_some(), remaining }.say();
        }
    }
    let left = locks.shutdown().await;
    if left.is_clean() { Ok(()) } else { Err("a release was not confirmed".into()) }
}
