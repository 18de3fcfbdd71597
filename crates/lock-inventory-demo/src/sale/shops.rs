//! Who sells: the one place that decides whether shops are tasks of this process or processes of their own.

use super::{
    Plan, STALLED_LEASE, SaleError, Strategy,
    counter::{Counter, Locks},
    process::{Job, LocksOnRedis, Processes},
};
use crate::{payment::Payments, redis::Redis, shop::Lease};
use std::{path::Path, sync::Arc};

/// Where the shops run, and where their locks are.
#[derive(Debug, Clone)]
pub enum Venue {
    /// Tasks of this process, with locks in its memory. Each has a lock factory and a database connection of its own,
    /// so that they are processes to one another.
    Tasks,
    /// Each shop is an operating-system process, with locks on this Redis. The shop that stalls is this process.
    Processes(Redis),
}

/// The shops of one sale. Dropping them ends their processes, if they have any.
#[derive(Debug)]
pub(super) struct Shops {
    /// Those that the crowd orders at.
    pub(super) open: Vec<Arc<Counter>>,
    /// The one more that stalls, where there is a lock to lose. It is always in this process, beside the fake payment
    /// service that it hangs in.
    pub(super) stalled: Option<Arc<Counter>>,
    _processes: Processes,
}

impl Shops {
    pub(super) async fn open(
        plan: &Plan,
        strategy: Strategy,
        database: &Path,
        payments: &Payments,
    ) -> Result<Self, SaleError> {
        let locks = match (strategy, &plan.venue) {
            (Strategy::WithoutLock, _) => None,
            (Strategy::WithLock, Venue::Tasks) => Some(Locks::in_memory()),
            (Strategy::WithLock, Venue::Processes(redis)) => Some(Locks::on(redis)),
        };
        let stalled = match &locks {
            None => None,
            Some(locks) => {
                let (name, lease) = ("stalled shop".into(), Lease::Fixed(STALLED_LEASE));
                Some(Arc::new(Counter::careful(name, locks, lease, database, payments).await?))
            }
        };
        let (open, processes) = match &plan.venue {
            Venue::Tasks => (tasks(plan, locks.as_ref(), database, payments).await?, Processes::default()),
            Venue::Processes(redis) => processes(plan, locks.is_some().then_some(redis), database).await?,
        };
        Ok(Self { open, stalled, _processes: processes })
    }

    /// Closes all shops.
    pub(super) async fn close(&self) -> Result<(), SaleError> {
        for shop in self.open.iter().chain(&self.stalled) {
            shop.close().await?;
        }
        Ok(())
    }
}

/// A shop in this process.
pub(super) async fn shop(
    number: u32,
    locks: Option<&Locks>,
    database: &Path,
    payments: &Payments,
) -> Result<Counter, SaleError> {
    let name = format!("shop {number}");
    match locks {
        None => Counter::careless(name, database, payments).await,
        Some(locks) => Counter::careful(name, locks, Lease::Watched, database, payments).await,
    }
}

async fn tasks(
    plan: &Plan,
    locks: Option<&Locks>,
    database: &Path,
    payments: &Payments,
) -> Result<Vec<Arc<Counter>>, SaleError> {
    let mut shops = Vec::new();
    for number in 1..=plan.shops {
        shops.push(Arc::new(shop(number, locks, database, payments).await?));
    }
    Ok(shops)
}

async fn processes(
    plan: &Plan,
    redis: Option<&Redis>,
    database: &Path,
) -> Result<(Vec<Arc<Counter>>, Processes), SaleError> {
    let locks =
        redis.map(|redis| LocksOnRedis { url: redis.url().clone(), prefix: redis.prefix().to_owned() });
    let job = |shop| Job { shop, seed: plan.seed, locks: locks.clone() };
    let processes = Processes::start((1..=plan.shops).map(job), database).await?;
    let shops = processes.shops().map(|shop| Arc::new(Counter::Process(shop))).collect();
    Ok((shops, processes))
}
