//! Many elections in a few processes.

use crate::support::secs;
use lock_core::{LockFactory, MemoryBackend, clock::TestClock};
use std::{future::pending, sync::Arc};
use tokio::{sync::Semaphore, task::JoinSet, time::sleep};

const SHARDS: usize = 12;

/// A process that campaigns for all shards, and leads at most as many as it has permits.
struct Process {
    permits: Arc<Semaphore>,
    limit: usize,
    campaigns: JoinSet<()>,
}

impl Process {
    fn start(store: &MemoryBackend, clock: &Arc<TestClock>, limit: usize) -> Self {
        let locks = LockFactory::builder(store.clone()).clock(clock.clone()).build().unwrap();
        let permits = Arc::new(Semaphore::new(limit));
        let mut campaigns = JoinSet::new();
        for shard in 0..SHARDS {
            let (election, permits) = (locks.election(format!("shard:{shard}")).unwrap(), permits.clone());
            campaigns.spawn(async move {
                let body = |_| {
                    let permit = permits.clone().try_acquire_owned();
                    async move {
                        let _permit = permit.map_err(|_| "this process leads enough shards")?;
                        pending::<Result<(), &str>>().await
                    }
                };
                election.lead(body).until(pending()).await.unwrap();
            });
        }
        Self { permits, limit, campaigns }
    }

    fn leads(&self) -> usize {
        self.limit - self.permits.available_permits()
    }
}

#[tokio::test(start_paused = true)]
async fn permits_in_the_bodies_spread_the_shards() {
    for (limit, spread) in [(SHARDS, false), (SHARDS / 2, true)] {
        let clock = Arc::new(TestClock::new());
        let store = MemoryBackend::with_clock(clock.clone());
        let mut processes = Vec::new();
        for _ in 0..3 {
            processes.push(Process::start(&store, &clock, limit));
            sleep(secs(1)).await;
        }
        sleep(secs(120)).await;
        let leads = || processes.iter().map(Process::leads).collect::<Vec<_>>();
        assert_eq!(leads().iter().sum::<usize>(), SHARDS, "{:?}", leads());
        assert_eq!(leads()[0], if spread { SHARDS / 2 } else { SHARDS }, "{:?}", leads());
        // The others replace a process that has ended.
        processes.remove(0).campaigns.shutdown().await;
        sleep(secs(120)).await;
        let left: Vec<_> = processes.iter().map(Process::leads).collect();
        assert_eq!(left.iter().sum::<usize>(), SHARDS, "{left:?}");
        assert!(!spread || left == [SHARDS / 2; 2], "{left:?}");
    }
}
