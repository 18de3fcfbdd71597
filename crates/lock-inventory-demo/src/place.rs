//! Where the shops run and where their locks are, as the command line says: what fits together, and why the rest does
//! not.

use crate::{
    cli::Cli,
    redis::{Redis, RedisError, RedisUrl},
    sale::Venue,
};
use lock_core::LockError;

/// How many shops there are where they are tasks.
const SHOPS: u32 = 4;
/// How many there are where they are processes.
const PROCESSES: u32 = 3;

/// A choice that makes sense. Nothing has been started yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Shops are tasks of this process, the locks are in its memory.
    Tasks {
        /// How many shops.
        shops: u32,
    },
    /// Each shop is a process, the locks are on a private Redis.
    PrivateRedis {
        /// How many processes.
        processes: u32,
    },
    /// Each shop is a process, the locks are on somebody's Redis.
    Redis {
        /// How many processes.
        processes: u32,
        /// Its address.
        url: RedisUrl,
    },
}

impl Place {
    /// Reads the choice off the command line.
    ///
    /// # Errors
    /// [`UsageError`] when the options do not fit together.
    pub fn of(cli: &Cli) -> Result<Self, UsageError> {
        if !cli.with_redis && cli.redis.is_none() {
            return match cli.processes {
                Some(_) => Err(UsageError::ProcessesWithoutRedis),
                None => Ok(Self::Tasks { shops: cli.shops.unwrap_or(SHOPS) }),
            };
        }
        if cli.shops.is_some() {
            return Err(UsageError::ShopsWithRedis);
        }
        let processes = cli.processes.unwrap_or(PROCESSES);
        match &cli.redis {
            None => Ok(Self::PrivateRedis { processes }),
            Some(url) => {
                let url = RedisUrl::parse(url.reveal()).map_err(UsageError::Address)?;
                Ok(Self::Redis { processes, url })
            }
        }
    }

    /// How many shops there are.
    #[must_use]
    pub fn shops(&self) -> u32 {
        match self {
            Self::Tasks { shops } => *shops,
            Self::PrivateRedis { processes } | Self::Redis { processes, .. } => *processes,
        }
    }

    /// Starts and connects what it needs.
    ///
    /// # Errors
    /// [`RedisError`] when Redis is not there, or does not let us in.
    ///
    /// # Cancel safety
    /// Dropping this ends what was started.
    pub async fn open(self) -> Result<Venue, RedisError> {
        Ok(match self {
            Self::Tasks { .. } => Venue::Tasks,
            Self::PrivateRedis { .. } => Venue::Processes(Redis::private().await?),
            Self::Redis { url, .. } => Venue::Processes(Redis::at(url).await?),
        })
    }
}

/// Options that do not fit together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UsageError {
    /// Processes have no memory in common to keep a lock in.
    #[error(
        "--processes needs --with-redis or --redis URL: a lock in memory excludes only the tasks of one process"
    )]
    ProcessesWithoutRedis,
    /// With Redis each shop is a process.
    #[error("with Redis each shop is a process of its own: give --processes instead of --shops")]
    ShopsWithRedis,
    /// The address of Redis is not usable.
    #[error("--redis was not given the address of a Redis")]
    Address(#[source] LockError),
}
