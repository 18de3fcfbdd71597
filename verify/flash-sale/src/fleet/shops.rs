//! A run's shop processes, which are also the servers behind the balancer.

use super::{FleetError, ShopCommand, ShopProcess, ShopState};
use crate::balancer::Servers;
use futures_util::future::try_join_all;
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// Time limit for shops to release their locks.
const ORDERLY: Duration = Duration::from_secs(20);
/// Time limit for shops to release their locks if the run is aborted.
const HURRIED: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(2);

/// Shop processes, starting with `shop-1`. Dropping this stops all of them.
#[derive(Debug)]
pub struct Fleet {
    commands: Vec<ShopCommand>,
    directory: PathBuf,
    servers: Servers,
    shops: Vec<Mutex<ShopProcess>>,
}

/// The status of a shop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShopStatus {
    /// Shop name.
    pub name: String,
    /// Process id.
    pub pid: u32,
    /// Address on which the shop listens.
    pub address: SocketAddr,
    /// Address for operators, if the shop has one.
    pub operators: Option<SocketAddr>,
    /// State of the process.
    pub state: ShopState,
}

impl Fleet {
    /// Starts one shop per command, concurrently, waits until all are ready, and adds them to `servers`. Their logs
    /// are in `directory`.
    ///
    /// # Errors
    /// If a shop does not start, returns its [`FleetError`] and stops the others.
    ///
    /// # Cancel safety
    /// Dropping this stops all shops that were started.
    pub async fn start(
        commands: Vec<ShopCommand>,
        servers: Servers,
        directory: &Path,
    ) -> Result<Self, FleetError> {
        let names: Vec<_> = (1..=commands.len()).map(|number| format!("shop-{number}")).collect();
        let starts = names.iter().zip(&commands);
        let starts = starts.map(|(name, command)| ShopProcess::start(command, name, directory));
        let shops = try_join_all(starts).await?;
        for shop in &shops {
            servers.set(shop.name().to_owned(), shop.address());
        }
        let shops = shops.into_iter().map(Mutex::new).collect();
        Ok(Self { commands, directory: directory.to_owned(), servers, shops })
    }

    /// Returns the number of shops, including suspended and dead ones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shops.len()
    }

    /// Returns `true` if there is no shop.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shops.is_empty()
    }

    /// Returns the status of every shop.
    #[must_use]
    pub fn statuses(&self) -> Vec<ShopStatus> {
        (0..self.shops.len()).map(|index| self.status(index)).collect()
    }

    /// Returns the status of the shop with this index. Indices start at 0.
    ///
    /// # Panics
    /// Panics if there is no such shop, as do all methods with an index.
    #[must_use]
    pub fn status(&self, index: usize) -> ShopStatus {
        self.with(index, |shop| ShopStatus {
            name: shop.name().to_owned(),
            pid: shop.pid(),
            address: shop.address(),
            operators: shop.operators(),
            state: shop.state(),
        })
    }

    /// Suspends a shop (SIGSTOP).
    pub fn pause(&self, index: usize) {
        self.with(index, ShopProcess::pause);
    }

    /// Resumes a suspended shop (SIGCONT).
    pub fn resume(&self, index: usize) {
        self.with(index, ShopProcess::resume);
    }

    /// Kills a shop (SIGKILL) and waits until it is gone.
    pub fn kill(&self, index: usize) {
        self.with(index, ShopProcess::kill);
    }

    /// Waits until a shop is suspended or has ended, for at most `limit`, and returns its state.
    pub async fn stopped(&self, index: usize, limit: Duration) -> ShopState {
        let begin = Instant::now();
        loop {
            let state = self.with(index, ShopProcess::state);
            if state != ShopState::Running || begin.elapsed() >= limit {
                return state;
            }
            sleep(LOOK).await;
        }
    }

    /// Starts a shop again at a new address. Kills it first if it is still running.
    ///
    /// # Errors
    /// Returns [`FleetError`] if the shop does not start.
    ///
    /// # Cancel safety
    /// Dropping this leaves the shop stopped.
    pub async fn revive(&self, index: usize) -> Result<(), FleetError> {
        self.kill(index);
        let name = self.with(index, |shop| shop.name().to_owned());
        let shop = ShopProcess::start(&self.commands[index], &name, &self.directory).await?;
        self.servers.set(name, shop.address());
        self.with(index, |old| *old = shop);
        Ok(())
    }

    /// Shuts down all shops gracefully and waits for their exit.
    ///
    /// # Errors
    /// Returns the [`FleetError`] of the first shop that did not exit successfully within 20 s.
    ///
    /// # Cancel safety
    /// Dropping this gives the shops 2 s to exit.
    pub async fn stop(self) -> Result<(), FleetError> {
        let running: Vec<_> = (0..self.shops.len())
            .filter(|index| self.with(*index, ShopProcess::state) != ShopState::Ended)
            .collect();
        self.ask_to_end();
        let begin = Instant::now();
        while !self.have_ended() && begin.elapsed() < ORDERLY {
            sleep(LOOK).await;
        }
        for index in running {
            self.with(index, |shop| {
                if shop.ended().is_none() {
                    shop.kill();
                }
                match shop.ended() {
                    Some(status) if !status.success() => {
                        Err(FleetError::Ended { name: shop.name().to_owned(), status, log: shop.log() })
                    }
                    _ => Ok(()),
                }
            })?;
        }
        Ok(())
    }

    fn ask_to_end(&self) {
        (0..self.shops.len()).for_each(|index| self.with(index, ShopProcess::ask_to_end));
    }

    fn have_ended(&self) -> bool {
        (0..self.shops.len()).all(|index| self.with(index, |shop| shop.ended().is_some()))
    }

    fn with<R>(&self, index: usize, f: impl FnOnce(&mut ShopProcess) -> R) -> R {
        f(&mut self.shops[index].lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Fleet {
    /// Stops the shops. Blocks the thread, usually for a few milliseconds, because the caller may
    /// then remove the database or exit.
    fn drop(&mut self) {
        self.ask_to_end();
        let begin = Instant::now();
        while !self.have_ended() && begin.elapsed() < HURRIED {
            thread::sleep(LOOK);
        }
    }
}
