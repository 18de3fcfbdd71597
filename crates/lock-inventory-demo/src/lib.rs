//! The reference application: a shop that deducts stock under load, in ten ways, and an audit of each.
//!
//! | module | contains |
//! | --- | --- |
//! | [`strategy`] | the ways to sell an order, one file each; `strategy/fenced.rs` is the one to copy |
//! | [`store`] | stock, orders and reservations in SQLite or PostgreSQL; `store/fenced.rs` is the one to copy |
//! | [`http`] | the routes, with the lock around the order |
//! | [`jobs`] | the jobs of the fleet: expired reservations, restocks, the nightly audit |
//! | [`shop`], [`serve`] | one shop, and one process with it |
//! | [`dashboard`] | one page that shows servers, stock and locks, and acts on them |
//! | [`domain`] | values, demand, and the rules of the audit, without IO |
//! | [`payment`], [`fault`] | the simulated payment service, and faults at an exact place |
//! | [`fleet`] | shop processes, pauses, kills, and servers of one's own |
//! | [`balancer`], [`load`], [`http_client`] | a round-robin reverse proxy, and load with fixed arrivals and a journal of outcomes |
//! | [`scenario`], [`audit`], [`report`] | the scenarios in real processes, the audit of a database, and the page of the results |
//! | [`catalogue`], [`locks`] | a CSV file and an address become valid values, or one clear sentence |
//! | [`quick`], [`cli`] | the default command, and the command line |

pub mod audit;
pub mod balancer;
pub mod catalogue;
pub mod cli;
pub mod dashboard;
pub mod domain;
pub mod fault;
pub mod fleet;
pub mod http;
pub mod http_client;
pub mod jobs;
pub mod load;
pub mod locks;
pub mod payment;
pub mod quick;
pub mod report;
pub mod scenario;
pub mod serve;
pub mod shop;
pub mod store;
pub mod strategy;
