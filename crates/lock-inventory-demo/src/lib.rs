//! The reference application: a shop that sells stock under load with one of ten strategies, and an
//! audit of the result.
//!
//! | module | contains |
//! | --- | --- |
//! | [`strategy`] | the ways to sell an order, one file each; `strategy/fenced.rs` is the one to copy |
//! | [`store`] | stock, orders and reservations in SQLite or PostgreSQL; `store/fenced.rs` is the one to copy |
//! | [`http`] | the routes, with the lock around an order |
//! | [`jobs`] | the fleet's jobs: expired reservations, restocks, the nightly audit |
//! | [`shop`], [`serve`] | a shop, and the process that serves it |
//! | [`dashboard`] | a page that shows and controls servers, stock and locks |
//! | [`domain`] | values, demand, and the rules of the audit, without I/O |
//! | [`payment`], [`fault`] | the simulated payment service, and faults injected at exact points |
//! | [`fleet`] | shop processes, their pauses and kills, and private servers |
//! | [`balancer`], [`load`], [`http_client`] | a round-robin reverse proxy, and a load generator with a journal of outcomes |
//! | [`scenario`], [`audit`], [`report`] | the scenarios in real processes, the audit of a database, and the results page |
//! | [`catalogue`], [`locks`] | parsing of the catalogue; the store for locks and job runs |
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
