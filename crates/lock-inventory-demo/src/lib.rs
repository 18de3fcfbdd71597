//! The reference application: a flash sale over several shops, once without and once with the lock.
//!
//! | module | is |
//! | --- | --- |
//! | [`shop`] | one shop instance: the critical section, fenced on the read and on the write. **Copy from here** |
//! | [`careless`] | the same shop without the lock: the negative control |
//! | [`store`] | stock and orders in SQLite: the fenced read, the fenced write, the rows for the audit |
//! | [`domain`] | what needs no IO: products, demand, the rules of the audit and of the verdict |
//! | [`sale`] | many buyers over several shops, as tasks or as processes, and the stalled shop |
//! | [`payment`] | the simulated system next door, which takes its time |
//! | [`fleet`] | shop processes, pauses, kills, and servers of one's own |
//! | [`balancer`], [`load`], [`http_client`] | a round-robin reverse proxy, and load with fixed arrivals and a journal of outcomes |
//! | [`catalogue`], [`cli`] | the edges: a CSV file and a command line become valid values, or one clear sentence |
//! | [`place`], [`redis`] | where the shops run, and where their locks are |
//! | [`progress`], [`report`] | what a person sees |

pub mod balancer;
pub mod careless;
pub mod catalogue;
pub mod cli;
pub mod domain;
pub mod fleet;
pub mod http_client;
pub mod load;
pub mod payment;
pub mod place;
pub mod progress;
pub mod redis;
pub mod report;
pub mod sale;
pub mod shop;
pub mod store;

mod app;

pub use app::{AppError, run};
