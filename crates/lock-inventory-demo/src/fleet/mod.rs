//! The processes of a run: shops and the servers that they need. No process is left over, however the run ends:
//!
//! | end | effect |
//! | --- | --- |
//! | [`Fleet::stop`] | every shop receives SIGTERM, releases its locks and ends; after 10 s it is killed |
//! | drop (an error, Ctrl-C) | the same with 2 s, during which the thread blocks |
//! | SIGKILL of this process | the stdin of the shops ends, and so do the shops; shells that watch the servers and directories clean up the rest |
//!
//! A stopped shop (SIGSTOP) is resumed first, or killed, which also works on stopped processes. Shops are in separate
//! process groups, so that Ctrl-C on a terminal only reaches this process.

mod command;
mod error;
mod postgres;
mod process;
mod redis;
mod shops;

pub use command::ShopCommand;
pub use error::FleetError;
pub use postgres::{PostgresError, PostgresServer};
pub use process::{ShopProcess, ShopState};
pub use redis::{PrivateRedis, PrivateRedisError, RedisAdmin};
pub use shops::{Fleet, ShopStatus};
