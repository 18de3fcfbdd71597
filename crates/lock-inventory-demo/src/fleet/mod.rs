//! The processes of a run: shops, and the servers that they need. None is left when it ends, on whatever path.
//!
//! | end | what happens |
//! | --- | --- |
//! | [`Fleet::stop`] | every shop gets SIGTERM, releases its locks and ends; after 10 s it is killed |
//! | drop (an error, Ctrl-C) | the same with 2 s, and the thread blocks meanwhile |
//! | SIGKILL of this process | the shops' stdin ends, and so do they; shells that watch over servers and directories do the rest |
//!
//! A stopped shop (SIGSTOP) is continued first, or killed, which works on stopped processes as well. Shops are in
//! process groups of their own: Ctrl-C on a terminal reaches this process alone.

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
