//! The strategies for selling orders, one file each. Copy `fenced.rs`. Several others are
//! deliberately incorrect.
//!
//! All strategies read the stock, call the payment service, and write the stock and the order. The
//! written stock is an absolute value computed from the read, because a relative `stock - 1` would
//! hide a lost update.

mod conditional;
mod fenced;
mod for_update;
mod kind;
mod lock;
mod mutex;
mod none;
mod redis_lua;
mod sections;
mod seller;
mod setnx;
mod units;
mod write_fence;

pub use kind::{Strategy, UnknownStrategy};
pub use redis_lua::RedisStock;
pub use seller::{SellError, Seller};
pub use setnx::SETNX_TTL;
