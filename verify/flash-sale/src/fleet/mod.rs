//! The processes of a run: shops and the servers they need. All processes end with the run:
//!
//! | end | effect |
//! | --- | --- |
//! | [`Fleet::stop`] | every shop receives SIGTERM, releases its locks and exits; after 20 s it is killed |
//! | drop (an error, Ctrl-C) | the same, but within 2 s; the drop blocks its thread |
//! | SIGKILL of this process | the shops exit when their stdin ends; watchdog shells stop the servers and remove the directories |
//!
//! A shop stopped with SIGSTOP is resumed first, or killed. Shops are in separate process groups,
//! so Ctrl-C on a terminal only reaches this process.

mod process;
mod redis;
mod shops;

pub use process::{FleetError, ShopCommand, ShopProcess, ShopState};
pub use redis::{PrivateRedis, PrivateRedisError, RedisAdmin};
pub use shops::{Fleet, ShopStatus};
